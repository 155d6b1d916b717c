"""A loop of PyTorch whose model is divided among its ranks survives losses as others do."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.engine.trainings import Found, losses, once, visits

torch: Any = pytest.importorskip("torch")
pytestmark = [pytest.mark.mpi, pytest.mark.torch]

PROGRAM = Path(__file__).parent / "programs" / "elastic_training.py"
EXAMPLES = 48
OPTIONS = {"kind": "sharded", "data": "global", "batch": 8, "steps": [12], "examples": EXAMPLES}
Train = Callable[..., Found]


def assert_same_curve(attempts: tuple[Found, ...], whole: Found) -> None:
    mine, theirs = losses(*attempts), losses(whole)
    assert [*mine] == [*theirs]
    np.testing.assert_allclose([*mine.values()], [*theirs.values()], rtol=1e-9)


def test_the_curve_is_the_same_on_changing_ranks(train) -> None:
    options = {"steps": [None], "epochs": 3}
    whole = train(2, **options, folder="")

    two = train(2, **options, stop=5)
    three = train(3, **options, stop=6, attempt=2, resume=True)
    again = train(2, **options, attempt=3, resume=True)

    assert_same_curve((two, three, again), whole)
    assert visits(two, three, again) == once(3, EXAMPLES)


@pytest.mark.weekly
@pytest.mark.parametrize("how", ["fsdp", "hsdp"])
def test_the_curve_is_the_same_on_two_four_three_one_and_four_ranks(train, how) -> None:
    options = {"shard": how, "steps": [None], "epochs": 5}
    whole = train(1, **{**options, "folder": "", "shard": ""})

    attempts = tuple(
        train(size, **options, stop=None if number == 5 else 6, attempt=number, resume=number > 1)
        for number, size in enumerate([2, 4, 3, 1, 4], 1)
    )

    assert_same_curve(attempts, whole)
    assert visits(*attempts) == once(5, EXAMPLES)


@pytest.mark.weekly
@pytest.mark.parametrize(("how", "size"), [("fsdp", 3), ("hsdp", 4), ("tensor", 2)])
def test_a_whole_model_continues_divided_and_a_divided_one_whole(train, how, size) -> None:
    options = {"data": "plain" if how == "tensor" else "global"}
    whole = train(1, **options, folder="", shard="")

    one = train(1, **options, shard="", stop=4)
    several = train(size, **options, shard=how, stop=8, attempt=2, resume=True)
    again = train(1, **options, shard="", attempt=3, resume=True)

    assert_same_curve((one, several, again), whole)


@pytest.mark.weekly
def test_parallel_layers_continue_on_other_ranks(train) -> None:
    options = {"shard": "tensor", "data": "plain", "steps": [None], "epochs": 2}
    whole = train(1, **{**options, "folder": "", "shard": ""})

    two = train(2, **options, stop=4)
    four = train(4, **options, stop=3, attempt=2, resume=True)
    one = train(1, **options, attempt=3, resume=True)

    assert_same_curve((two, four, one), whole)


@pytest.fixture
def on_nodes(on_shared_ranks, tmp_path) -> Train:
    """Train on ranks that are nodes, each with a folder of its own."""

    def train(size: int, **options: Any) -> Found:
        base = {"folder": f"{tmp_path}/node-{{rank}}", "nodes": True, "stop": 7, **OPTIONS}
        return on_shared_ranks(PROGRAM, size, json.dumps({**base, **options}))

    return train


def parts(tmp_path: Path, node: int) -> list[int]:
    """Return which parts of the newest snapshot a node has."""
    found = (tmp_path / f"node-{node}").glob("*-iteration-7-part-*")
    return sorted(int(path.name.rpartition("-")[2]) for path in found)


def test_each_part_is_on_a_neighbour_too_so_that_a_node_may_be_lost(on_nodes, tmp_path) -> None:
    whole = on_nodes(3, folder="", stop=None)
    first = on_nodes(3)
    assert [parts(tmp_path, node) for node in range(3)] == [[0, 2], [0, 1], [1, 2]]

    shutil.rmtree(tmp_path / "node-1")
    second = on_nodes(3, attempt=2, resume=True, stop=None)

    assert_same_curve((first, second), whole)
    assert second[0]["weights"] == whole[0]["weights"]


def test_a_part_that_is_damaged_on_a_node_is_read_on_its_neighbour(on_nodes, tmp_path) -> None:
    first = on_nodes(2)
    (path,) = (tmp_path / "node-0").glob("*-iteration-7-part-0/*.distcp")
    path.write_bytes(path.read_bytes()[:-1])

    second = on_nodes(2, attempt=2, resume=True, stop=None)

    assert [*losses(first, second)] == [f"0 {at}" for at in range(1, 13)]
    assert "is not used" in second[0]["said"]


@pytest.mark.weekly
def test_replicas_save_what_they_have_and_are_sent_nothing(on_nodes, tmp_path) -> None:
    on_nodes(4, shard="hsdp")

    assert [parts(tmp_path, node) for node in range(4)] == [[0], [1], [0], [1]]


def test_a_run_that_lost_both_nodes_of_a_part_takes_no_other_s_state(on_nodes, tmp_path) -> None:
    on_nodes(3)
    for node in (1, 2):
        shutil.rmtree(tmp_path / f"node-{node}")

    found = on_nodes(3, attempt=2, resume=True)

    assert found[0]["ended"].startswith("No complete snapshot of this run is on its nodes")


def test_pytorch_s_own_load_reads_the_snapshot_of_a_node(train, tmp_path) -> None:
    train(2, stop=7)
    from torch.distributed.checkpoint import load

    state = {"model.0.weight": torch.zeros(12, 2, dtype=torch.float64)}
    folder = tmp_path / "snapshots" / "attempt-1-training-1-iteration-7"
    with pytest.warns(UserWarning, match="uninitialized"):
        load(state, checkpoint_id=folder)

    assert state["model.0.weight"].abs().sum() > 0


def test_a_network_of_another_shape_does_not_take_the_pieces(train) -> None:
    train(2, stop=7)

    found = train(2, stop=7, attempt=2, resume=True, units=5)

    assert "is not" in found[0]["ended"]
