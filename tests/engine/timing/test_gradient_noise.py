"""The noise scale measured in a real ChainerMN training is that of its data."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest

from tests.engine.trainings import Found
from workbench.analysis.step_breakdown import read_breakdown
from workbench.core.performance.step_sampling import noise_period
from workbench.core.run.model import RunKind, RunState, RunWish
from workbench.core.run.rank_protocol import Batch, Sample
from workbench.frameworks.chainer.gradient_noise import squared_norm
from workbench.store import Store

pytestmark = pytest.mark.mpi

PROGRAMS = Path(__file__).parents[1] / "programs"


@pytest.fixture(scope="module")
def measured(on_shared_ranks) -> list[dict[str, float]]:
    """What two ranks found, measured at every step."""
    return on_shared_ranks(PROGRAMS / "noise_scale.py", 2, "naive")


@pytest.fixture(scope="module")
def overlapping(on_shared_ranks) -> list[dict[str, float]]:
    """The same with gradients that leave during the backward pass."""
    return on_shared_ranks(PROGRAMS / "noise_scale.py", 2, "none")


def test_gradients_that_leave_early_are_measured_alike(overlapping) -> None:
    assert overlapping[0]["overlaps"]
    test_the_noise_scale_comes_near_that_of_the_data(overlapping)


def test_what_is_put_off_is_not_measured(on_shared_ranks) -> None:
    found = on_shared_ranks(PROGRAMS / "noise_scale.py", 2, "topk")

    assert [name for one in found for name in one if name.startswith("gradient_noise/")] == []


def test_the_noise_scale_comes_near_that_of_the_data(measured) -> None:
    signal = np.mean([one["gradient_noise/signal"] for one in measured])
    noise = np.mean([one["gradient_noise/noise"] for one in measured])

    assert all(one["gradient_noise/steps"] >= 1400 for one in measured)
    assert noise / signal == pytest.approx(measured[0]["exact"], rel=0.3)


def test_the_advice_is_below_the_verdict(measured, tmp_path) -> None:
    with Store(tmp_path / "store.sqlite3") as store:
        run = store.wish_run(RunWish("260101-000000-aaaa", "fit", RunKind.CELL, "pass")).id
        for rank, values in enumerate(measured):
            samples = tuple(
                Sample(name, time, 0.0, value)
                for time in range(1, 11)
                for name, value in values.items()
                if "/" in name and not isinstance(value, str)
            )
            store.reports.add_batches([Batch(run, rank, 1, samples)])
        store.put_run_fact(run, state=RunState.FINISHED)

        advice = read_breakdown(store, store.run(run)).says[-1]

    assert advice.startswith("Useful batch: about ")
    assert advice.endswith("; all ranks together use 32.")


def test_the_rate_rises_to_that_of_all_ranks(on_ranks) -> None:
    first, second = on_ranks(PROGRAMS / "scaled_rate.py", 2)

    assert first["plan"] == pytest.approx([0.01, 0.02, 20])
    assert first["rates"] == second["rates"]
    assert first["rates"][:2] == pytest.approx([0.0105, 0.011])
    assert first["rates"][19:] == pytest.approx([0.02] * 21)
    assert first["shown"] == "<LinearScaling 0.01 to 0.02 in 20 iterations>"
    assert np.isfinite(first["loss"])


def test_costly_estimates_are_made_rarely_and_by_all_ranks_at_once() -> None:
    assert noise_period(1.0, 1e-3) == 1
    assert noise_period(0.001, 1e-3) == 512
    assert noise_period(0.0016, 1e-3) == 512
    assert noise_period(0.1, 1e-4) == 4  # samples that follow sooner add nothing
    assert noise_period(1e-6, 1.0) == 1024
    assert noise_period(0.0, 1.0) > 1


def test_half_precision_does_not_overflow() -> None:
    class Parameter:
        def __init__(self, grad) -> None:
            self.grad = grad

    class Model:
        def params(self) -> list[Parameter]:
            return [Parameter(np.full(100, 200, np.float16)), Parameter(None)]

    assert squared_norm(Model()) == pytest.approx(4e6)


# -- two of what a training mostly has one of

SHAPES = ("shared", "two_communicators", "one_model", "two_names", "set_up_twice")


@pytest.fixture(scope="module", params=["naive", "auto", "ring"])
def two(request, on_shared_ranks) -> Found:
    """What two ranks found by one communicator."""
    return on_shared_ranks(PROGRAMS / "two_of_each.py", 2, request.param)


def test_with_two_of_each_a_run_trains_as_without_hooks(two) -> None:
    for rank in two:
        for case, found in rank.items():
            assert found["weights"] == found["plain"], case
            assert found["left"] == [], case
    assert [one["weights"] for one in two[0].values()] == [
        one["weights"] for one in two[1].values()
    ]


def test_each_exchange_of_two_optimizers_counts_once(two) -> None:
    calls = {case: two[0][case]["calls"] for case in SHAPES}

    # Of ranks that share their cores, a few of the 12 steps may pass before the measuring begins.
    # The first of an optimizer sends weights; one that has two names steps twice in an iteration.
    arrays = math.ceil(calls["set_up_twice"])
    exchanges = {"set_up_twice": (1, 1), "two_names": (2, 1)}
    for case, found in calls.items():
        each, first = exchanges.get(case, (2, 2))
        possible = [arrays * (each * steps - first) / steps for steps in range(4, 13)]
        assert any(found == pytest.approx(one) for one in possible), case


def test_the_noise_of_two_models_is_that_of_both_together(two) -> None:
    noise = {case: two[0][case]["noise"] for case in SHAPES}

    assert noise["shared"] == noise["two_communicators"]
    assert {at for one in noise.values() for at, _ in one} == {12}
    steps = {case: one[-1][1] for case, one in noise.items()}
    assert steps == dict(zip(SHAPES, (11, 11, 22, 23, 11), strict=True))


def test_a_trainer_inside_an_extension_is_a_part_of_the_others_step(two) -> None:
    nested = two[0]["nested"]

    assert nested["losses"] == {"main/loss": [*range(1, 13)]}
    assert nested["iteration"] == 12
    assert two[0]["one_after_the_other"]["losses"] == {"main/loss": [*range(1, 13)] * 2}
