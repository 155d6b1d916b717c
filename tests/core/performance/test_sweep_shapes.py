"""The ways to divide ranks among trials have the time and money of the trials that they hold."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workbench.core.fleet.model import Offer
from workbench.core.performance.exchange_model import CODINGS, Codec
from workbench.core.performance.frontier import Interruptions, Task, forecast
from workbench.core.performance.scaling import BatchPolicy
from workbench.core.performance.step_model import Work
from workbench.core.performance.sweep_shapes import (
    SweepShape,
    SweepTask,
    choose_shape,
    find_shapes,
)

TASK = Task(Work(0.4, 102e6, batch=32), 128_000)
CALM = Interruptions(rate=0.0)
ONE = Offer("one", "a", 0.3, vcpus=2, memory=8, network=1.44)
FOUR = replace(ONE, type="four", price=1.2, vcpus=8)


def shapes(trials: int = 40, offer: Offer = ONE, **changed: object) -> dict[int, SweepShape]:
    sweep = SweepTask(TASK, trials)
    found = find_shapes(sweep, [offer], **({"interruptions": CALM} | changed))
    return {one.ranks: one for one in found}


def test_shapes_reach_from_a_rank_for_each_trial_to_all_ranks_for_one() -> None:
    found = shapes(most=8)

    assert [(one.at_once, one.ranks, one.nodes) for one in found.values()] == [
        (8, 1, 8), (4, 2, 8), (2, 4, 8), (1, 8, 8),
    ]  # fmt: skip


def test_a_trial_takes_what_the_plan_of_a_run_says() -> None:
    found = shapes(most=8)

    alone, all_ = forecast(TASK, ONE, 1, CODINGS[0]), forecast(TASK, ONE, 8, CODINGS[0])
    assert alone is not None
    assert all_ is not None
    assert found[1].seconds == pytest.approx(5 * alone.seconds)
    assert (found[1].low, found[1].high) == pytest.approx((5 * alone.low, 5 * alone.high))
    assert found[8].seconds == pytest.approx(40 * all_.seconds)
    assert found[8].dollars == pytest.approx(found[8].seconds * 8 * 0.3 / 3600)


def test_many_trials_at_once_exchange_nothing_and_are_cheaper() -> None:
    found = shapes(most=8)

    assert found[1].seconds < found[2].seconds < found[8].seconds
    assert choose_shape(found.values()) == found[1]


def test_few_trials_are_quicker_on_more_ranks_each() -> None:
    task = replace(TASK, work=replace(TASK.work, nbytes=1e5))
    found = find_shapes(SweepTask(task, 3), [ONE], most=12, interruptions=CALM)

    best = choose_shape(found)
    assert best is not None
    assert (best.at_once, best.ranks) == (3, 4)


def test_trials_that_would_leave_a_last_few_share_fewer_nodes() -> None:
    found = shapes(trials=40, most=16)[1]

    assert (found.at_once, found.nodes) == (14, 14)  # three times, as on 16
    assert found.idle == pytest.approx(1 - 40 / 42)


def test_trials_of_a_part_of_a_node_share_it() -> None:
    found = shapes(trials=8, offer=FOUR, most=2)

    assert [(one.at_once, one.ranks, one.nodes) for one in found.values()] == [
        (8, 1, 2), (4, 2, 2), (2, 4, 2), (1, 8, 2),
    ]  # fmt: skip
    assert {one.codec for one in list(found.values())[:3]} == {Codec.NONE}


def test_a_node_without_a_known_network_holds_trials_within_it() -> None:
    found = shapes(trials=8, offer=replace(FOUR, network=0.0), most=2)

    assert [*found] == [1, 2, 4]


def test_without_a_limit_there_are_as_many_nodes_as_trials_of_a_rank_need() -> None:
    assert shapes(trials=5)[1].nodes == 5
    assert shapes(trials=5, offer=replace(ONE, quota=6))[1].nodes == 3
    assert shapes(trials=5, offer=replace(ONE, quota=0)) == {}


def test_an_interruption_costs_the_trial_whose_node_it_takes() -> None:
    often = Interruptions(rate=1.0)
    calm, lost = shapes(most=8), shapes(most=8, interruptions=often)

    assert lost[1].seconds / calm[1].seconds == pytest.approx(1 + 1 / 60)
    assert lost[8].seconds / calm[8].seconds == pytest.approx(1 + 8 / 60)


def test_what_a_trial_takes_outside_its_steps_is_not_divided() -> None:
    with_ = find_shapes(SweepTask(TASK, 40, outside=10.0), [ONE], most=8, interruptions=CALM)
    without = shapes(most=8)

    assert with_[0].seconds - without[1].seconds == pytest.approx(5 * 10)
    assert with_[-1].seconds - without[8].seconds == pytest.approx(40 * 10)


def test_a_batch_that_is_the_same_for_all_is_shared_by_at_most_so_many_ranks() -> None:
    task = replace(TASK, batch=BatchPolicy.TOTAL, work=replace(TASK.work, batch=4))

    found = find_shapes(SweepTask(task, 40), [ONE], most=8, interruptions=CALM)

    assert [one.ranks for one in found] == [1, 2, 4]


@given(
    trials=st.integers(1, 200), cores=st.integers(1, 16), most=st.integers(1, 40),
    quota=st.one_of(st.none(), st.integers(0, 64)),
)  # fmt: skip
def test_all_trials_fit_and_no_rank_has_two(
    trials: int, cores: int, most: int, quota: int | None
) -> None:
    offer = replace(ONE, vcpus=2 * cores, quota=quota)
    for one in shapes(trials, offer, most=most).values():
        assert 1 <= one.at_once <= trials
        assert one.at_once * one.ranks <= one.nodes * cores
        assert one.nodes <= most
        assert 0 <= one.idle < 1
        assert one.low <= one.seconds <= one.high
        assert math.ceil(trials / one.at_once) * one.trial == pytest.approx(one.seconds)
