"""A loop of PyTorch that is resumed on real ranks is the loop that was never interrupted."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.engine.trainings import losses, once, visits

pytest.importorskip("torch")
pytestmark = [pytest.mark.mpi, pytest.mark.torch]

PROGRAM = Path(__file__).parent / "programs" / "elastic_training.py"
EXAMPLES = 48
OPTIONS = {"kind": "torch", "examples": EXAMPLES}


EXACT: dict[str, tuple[int, dict[str, Any]]] = {
    "a plain loader": (1, {"data": "plain", "noise": 0.1}),
    "at the end of an epoch": (1, {"data": "plain", "noise": 0.1, "batch": 8, "stop": 6}),
    "a stream": (2, {"data": "stream", "noise": 0.1, "scatter": False}),
    "batches of all ranks": (2, {"data": "global", "noise": 0.1}),
    "a distributed sampler": (2, {"data": "distributed", "noise": 0.1}),
    "processes that read": (2, {"data": "distributed", "workers": 1}),
}


@pytest.mark.parametrize(("size", "options"), EXACT.values(), ids=EXACT)
def test_it_is_the_same_loop(train, size, options) -> None:
    stop = options.get("stop", 7)
    whole = train(size, **{**options, "folder": "", "stop": None})

    first = train(size, **{**options, "stop": stop})
    second = train(size, **{**options, "stop": None, "attempt": 2, "resume": True})

    assert {one["ended"] for one in first} == {"stopped"}
    assert losses(first, second) == losses(whole)
    for mine, theirs in zip(second, whole, strict=True):
        for name in ("ended", "weights", "iteration", "progress", "after"):
            assert mine[name] == theirs[name], name
        assert mine["epochs"] == theirs["epochs"][stop:]
    assert first[0]["said"] + second[0]["said"] == ""


def test_delayed_gradients_of_replicas_are_applied_after_the_snapshot(train) -> None:
    options = {"double_buffering": True, "data": "global"}
    whole = train(2, **options, folder="")

    first = train(2, **options, stop=7)
    second = train(2, **options, attempt=2, resume=True)

    mine, theirs = losses(first, second), losses(whole)
    assert [*mine] == [*theirs]
    np.testing.assert_allclose([*mine.values()], [*theirs.values()], rtol=1e-5)
    assert second[0]["weights"] == second[1]["weights"]


@pytest.mark.parametrize("codec", ["int8", "topk", "powersgd"])
def test_what_compression_keeps_is_that_of_the_loop_before(train, codec) -> None:
    options = {"compress": codec, "data": "global"}
    whole = train(2, **options, folder="")

    first = train(2, **options, stop=7)
    second = train(2, **options, attempt=2, resume=True)

    assert losses(first, second) == losses(whole)
    assert [one["weights"] for one in second] == [one["weights"] for one in whole]


def test_a_new_rank_has_no_error_of_its_own_and_stays_like_the_others(train) -> None:
    options = {"compress": "powersgd", "data": "global"}
    whole = train(2, **options, folder="")

    train(2, **options, stop=7)
    three = train(3, **options, attempt=2, resume=True)

    assert three[0]["weights"] == three[1]["weights"] == three[2]["weights"]
    last = [losses(found)["0 12"] for found in (three, whole)]
    assert last[0] == pytest.approx(last[1], rel=0.5)


def test_new_ranks_have_the_delayed_gradients_too(train) -> None:
    options = {"double_buffering": True, "data": "global"}
    whole = train(2, **options, folder="")

    train(2, **options, stop=7)
    three = train(3, **options, attempt=2, resume=True)

    assert three[0]["weights"] == three[1]["weights"] == three[2]["weights"]
    last = [losses(found)["0 12"] for found in (three, whole)]
    assert last[0] == pytest.approx(last[1], rel=1e-4)


@pytest.mark.parametrize("workers", [0, 1])
def test_the_curve_is_the_same_on_changing_ranks(train, workers) -> None:
    options = {"data": "global", "steps": [None], "epochs": 3, "batch": 7, "workers": workers}
    whole = train(1, **options, folder="")

    two = train(2, **options, stop=5)
    three = train(3, **options, stop=6, attempt=2, resume=True)
    one = train(1, **options, attempt=3, resume=True)

    mine, theirs = losses(two, three, one), losses(whole)
    assert [*mine] == [*theirs]
    np.testing.assert_allclose([*mine.values()], [*theirs.values()], rtol=1e-9)
    assert visits(two, three, one) == visits(whole) == once(3, EXAMPLES)


@pytest.mark.weekly
def test_the_curve_is_the_same_on_two_four_three_one_and_four_ranks(train) -> None:
    options = {"data": "global", "batch": 7, "steps": [None], "epochs": 5}
    whole = train(2, **options, folder="")

    attempts = [
        train(size, **options, stop=None if number == 5 else 6, attempt=number, resume=number > 1)
        for number, size in enumerate([2, 4, 3, 1, 4], 1)
    ]

    mine, theirs = losses(*attempts), losses(whole)
    assert [*mine] == [*theirs]
    np.testing.assert_allclose([*mine.values()], [*theirs.values()], rtol=1e-8)
    assert visits(*attempts) == once(5, EXAMPLES)


def test_a_distributed_sampler_visits_each_example_once_on_changing_ranks(train) -> None:
    options = {"data": "distributed", "steps": [None], "epochs": 2, "batch": 2}

    two = train(2, **options, stop=6)
    three = train(3, **options, stop=2, attempt=2, resume=True)
    one = train(1, **{**options, "data": "plain"}, attempt=3, resume=True)

    assert [found[0]["ended"] for found in (two, three, one)] == ["stopped", "stopped", "finished"]
    assert visits(two, three, one) == once(2, EXAMPLES)
    assert two[0]["said"] == ""
    for found, now, before in (
        (three, "6 examples in a step, and had 4; an epoch has 8 steps, and had 12", 2),
        (one, "2 examples in a step, and had 6; an epoch has 24 steps, and had 8", 3),
    ):
        assert now in found[0]["said"], before
        assert "with workbench.GlobalBatches both stay" in found[0]["said"]
    assert one[0]["progress"]["epoch"] == 2.0


def test_data_that_is_not_divided_is_reported(train) -> None:
    train(2, data="plain", stop=3)

    (found,) = train(1, data="plain", attempt=2, resume=True)

    assert found["ended"] == "finished"
    assert "no DistributedSampler, so some examples" in found["said"]


def test_a_stream_is_the_same_on_changing_ranks(train) -> None:
    options = {"data": "stream", "scatter": False, "steps": [None], "epochs": 3, "batch": 4}
    whole = train(2, **options, folder="")

    attempts = [
        train(size, **options, stop=None if number == 4 else 4, attempt=number, resume=number > 1)
        for number, size in enumerate([2, 3, 1, 2], 1)
    ]

    mine, theirs = losses(*attempts), losses(whole)
    assert [*mine] == [*theirs]
    np.testing.assert_allclose([*mine.values()], [*theirs.values()], rtol=1e-9)
    assert visits(*attempts) == visits(whole) == once(3, EXAMPLES)


def test_a_stream_that_gives_each_rank_other_examples_is_named(train) -> None:
    for one in train(2, data="stream"):
        assert "its data gives each rank other examples; let all ranks" in one["ended"]
