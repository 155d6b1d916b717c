"""An elastic loop that is resumed from a snapshot is the loop that was never interrupted."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.engine.trainings import losses, once, visits
from tests.waiting import until
from workbench.engine.snapshot.folder import SnapshotFolder

pytestmark = [pytest.mark.mpi, pytest.mark.contract]

PROGRAM = Path(__file__).parent / "programs" / "elastic_training.py"
EXAMPLES = 50


EXACT: dict[str, tuple[int, dict[str, Any]]] = {
    "arrays and plain values": (1, {}),
    "on two ranks": (2, {}),
    "links of Chainer on two ranks": (2, {"kind": "chainer"}),
}


@pytest.mark.parametrize(("size", "options"), EXACT.values(), ids=EXACT)
def test_it_is_the_same_loop(train, size, options) -> None:
    whole = train(size, **{**options, "folder": ""})

    first = train(size, **options, stop=7)
    second = train(size, **options, attempt=2, resume=True)

    assert {one["ended"] for one in first} == {"stopped"}
    assert {one["iteration"] for one in first} == {7}
    assert losses(first, second) == losses(whole)
    for mine, theirs in zip(second, whole, strict=True):
        assert mine["boundaries"] == 12 - 7
        for name in ("ended", "weights", "iteration", "progress", "after"):
            assert mine[name] == theirs[name], name
    assert second[0]["resumed"] == [[7, 1.0]]
    assert [at for at, _ in second[0]["reported"]] == [8, 9, 10, 11, 12]
    assert first[0]["said"] + second[0]["said"] == ""


def test_the_curve_is_the_same_on_changing_ranks(train) -> None:
    whole = train(1, steps=[None], epochs=3, folder="")

    two = train(2, steps=[None], epochs=3, stop=5)
    three = train(3, steps=[None], epochs=3, stop=6, attempt=2, resume=True)
    one = train(1, steps=[None], epochs=3, attempt=3, resume=True)

    mine, theirs = losses(two, three, one), losses(whole)
    assert [*mine] == [*theirs]
    np.testing.assert_allclose([*mine.values()], [*theirs.values()], rtol=1e-9)
    assert visits(two, three, one) == visits(whole) == once(3, EXAMPLES)
    assert one[0]["progress"] == whole[0]["progress"]


@pytest.mark.weekly
def test_the_curve_is_the_same_on_two_four_three_one_and_four_ranks(train) -> None:
    options = {"steps": [None], "epochs": 5}
    whole = train(2, **options, folder="")

    attempts = [
        train(size, **options, stop=None if number == 5 else 6, attempt=number, resume=number > 1)
        for number, size in enumerate([2, 4, 3, 1, 4], 1)
    ]

    mine, theirs = losses(*attempts), losses(whole)
    assert [*mine] == [*theirs]
    np.testing.assert_allclose([*mine.values()], [*theirs.values()], rtol=1e-8)
    assert visits(*attempts) == once(5, EXAMPLES)


def test_an_iterator_of_chainer_visits_each_example_once_on_changing_ranks(train) -> None:
    options = {"kind": "chainer", "batch": 5, "steps": [None], "epochs": 2}

    two = train(2, **options, stop=2)
    one = train(1, **options, attempt=2, resume=True)

    assert [found[0]["ended"] for found in (two, one)] == ["stopped", "finished"]
    assert visits(two, one) == once(2, EXAMPLES)
    assert two[0]["said"] + one[0]["said"] == ""


def test_a_killed_rank_costs_the_steps_since_the_newest_snapshot(
    train, start_ranks, snapshots
) -> None:
    whole = train(2, folder="")

    world = start_ranks(PROGRAM, 2, json.dumps({"folder": str(snapshots), "kill": [1, 10]}))
    until((world.folder / "killed").exists, said=lambda: world.said)
    world.close()
    second = train(2, attempt=2, resume=True)

    assert {**losses(whole), **losses(second)} == losses(whole)
    assert [*second[0]["losses"]] == [f"0 {n}" for n in range(9, 13)]


def test_ranks_save_together_when_rank_0_is_asked_to_and_train_on(train) -> None:
    whole = train(2, folder="")

    asked = train(2, every=100, ask=8, fail=10)
    second = train(2, attempt=2, resume=True)

    assert asked[0]["snapshots"] == [5, 8]
    assert second[0]["resumed"] == [[8, 1.0]]
    assert {**losses(asked), **losses(second)} == losses(whole)


@pytest.mark.parametrize(("damaged", "at"), [((), 7), ((0,), 7), ((0, 1), 5)])
def test_a_node_that_joins_gets_the_state_from_one_that_can_read_it(
    train, snapshots, damaged, at
) -> None:
    options = {"nodes": True, "folder": str(snapshots / "{rank}"), "steps": [None], "epochs": 2}
    whole = train(2, **{**options, "folder": ""})
    two = train(2, **options, stop=7)
    for rank in damaged:
        (file,) = (snapshots / str(rank)).glob("*-iteration-7/state.npz")
        content = bytearray(file.read_bytes())
        content[-20] ^= 1
        file.write_bytes(content)

    three = train(3, **options, attempt=2, resume=True)

    assert three[0]["resumed"] == [[at, 1.0]]
    assert [one["said"].count("state.npz is damaged") for one in three] == [
        int(rank in damaged) for rank in range(3)
    ]
    mine, theirs = losses(two, three), losses(whole)
    assert [*mine] == [*theirs]
    np.testing.assert_allclose([*mine.values()], [*theirs.values()], rtol=1e-9)


def test_a_loop_that_has_ended_is_not_repeated(train, snapshots) -> None:
    options = {"steps": [12, 9]}
    whole = train(1, **options, folder="")

    first = train(1, **options, stop=18)
    second = train(1, **options, attempt=2, resume=True)

    assert losses(first, second) == losses(whole)
    assert second[0]["weights"] == whole[0]["weights"]
    assert second[0]["boundaries"] == 3
    kept = SnapshotFolder(snapshots, "260101-000000-arun").manifests()
    assert {(1, 12, True), (2, 9, True)} <= {(k.training, k.iteration, k.final) for k in kept}


def test_ranks_that_train_on_their_own_are_not_saved(train, snapshots) -> None:
    first, second = train(2, alone=True)

    assert first["ended"] == second["ended"] == "finished"
    assert first["snapshots"] == []
    assert first["said"].count("state['w'] differs between ranks 0 and 1") == 1
    assert [*snapshots.glob("attempt-*")] == []


def test_ranks_with_different_entries_are_refused(train) -> None:
    for one in train(2, more=[1, "extra"]):
        assert one["ended"] == (
            "state['extra'] is absent on rank 0 and a plain value on rank 1; give all ranks the "
            "same entries."
        )


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"more": [0, "extra"]}, "has state['extra'] as nothing, and this loop as a plain value"),
        ({"units": 4}, "of shape (4,), and that of the snapshot is of float64 of shape (3,)"),
        ({"examples": 60}, "GlobalBatches have examples=60, and those of the snapshot examples=50"),
        ({"kind": "chainer"}, "has state['history'] as a plain value, and this loop as nothing"),
    ],
    ids=["another entry", "another shape", "other data", "another loop"],
)
def test_a_snapshot_of_another_state_is_refused(train, options, sentence) -> None:
    train(1, stop=7)

    (found,) = train(1, **options, attempt=2, resume=True)

    assert sentence in found["ended"]
