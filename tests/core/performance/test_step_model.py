"""The parts of a step follow their definitions."""

from __future__ import annotations

from dataclasses import replace
from random import Random
from statistics import fmean

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workbench.core.performance.exchange_model import (
    CODINGS,
    MEMORY,
    PLAIN,
    Algorithm,
    Link,
    seconds,
)
from workbench.core.performance.step_model import (
    DOUBLE_BUFFERED,
    Work,
    WorldShape,
    expected_maximum,
    step,
)

SLOW = Link(50e-6, 1.38e9 / 8)
WORK = Work(compute=0.2, nbytes=102.4e6, batch=32)
NODES = st.integers(1, 64)


@given(NODES, st.floats(0, 1e9), st.floats(0, 1e9), st.floats(0, 1))
def test_more_bytes_never_make_a_step_shorter(
    nodes: int, nbytes: float, more: float, hidden: float
) -> None:
    few = replace(WORK, nbytes=nbytes, hidden=hidden)
    many = replace(few, nbytes=nbytes + more)

    assert (
        step(many, WorldShape(nodes, SLOW)).total >= step(few, WorldShape(nodes, SLOW)).total - 1e-9
    )


@given(st.integers(1, 63), st.floats(0, 0.2), st.floats(0, 1))
def test_around_a_ring_more_nodes_never_make_a_step_shorter(
    nodes: int, spread: float, hidden: float
) -> None:
    work = replace(WORK, spread=spread, hidden=hidden)
    fewer, more = (
        step(work, WorldShape(count, SLOW), algorithm=Algorithm.RING).total
        for count in (nodes, nodes + 1)
    )

    assert more >= fewer


@given(NODES, st.floats(0, 1), st.sampled_from(CODINGS))
def test_what_is_hidden_is_never_more_than_what_there_is(nodes: int, hidden: float, coding) -> None:
    parts = step(replace(WORK, hidden=hidden), WorldShape(nodes, SLOW), coding=coding)

    assert 0 <= parts.exposed <= parts.exchange
    assert parts.coding >= 0
    assert parts.total >= WORK.compute


def test_one_rank_alone_only_works() -> None:
    work = replace(WORK, data=0.01, other=0.02, spread=0.1)

    assert step(work, WorldShape(1, SLOW)).total == pytest.approx(0.23)


def test_double_buffering_hides_an_exchange_as_long_as_the_compute() -> None:
    work = replace(WORK, nbytes=20e6, hidden=DOUBLE_BUFFERED)

    assert step(work, WorldShape(4, SLOW)).total == pytest.approx(WORK.compute)


def test_half_the_batch_is_computed_in_half_the_time() -> None:
    assert step(WORK, WorldShape(1, SLOW), batch=16).total == pytest.approx(0.1)


def test_many_small_messages_pay_the_latency_of_each() -> None:
    ring = {"algorithm": Algorithm.RING}
    one, many = (step(replace(WORK, messages=n), WorldShape(2, SLOW), **ring) for n in (1, 161))

    assert many.exchange - one.exchange == pytest.approx(160 * 2 * SLOW.latency)


def test_the_exchange_of_two_nodes_is_that_which_was_measured() -> None:
    """100 MB at 1.44 Gbit/s took 580 ms."""
    took = seconds(Algorithm.RING, 100e6, 2, 1, SLOW, MEMORY)

    assert took == pytest.approx(0.58, rel=0.05)


@pytest.mark.parametrize(("count", "value"), [(2, 0.56419), (3, 0.84628), (8, 1.42360)])
def test_the_slowest_is_as_late_as_order_statistics_say(count: int, value: float) -> None:
    assert expected_maximum(count) == pytest.approx(value, abs=1e-5)


def test_waiting_is_what_ranks_of_uneven_speed_wait() -> None:
    draw = Random(0)
    drawn = [max(draw.gauss(0.2, 0.01) for _ in range(8)) for _ in range(20_000)]

    parts = step(replace(WORK, nbytes=0, spread=0.05), WorldShape(8, Link(0, 1e12)))

    assert parts.total == pytest.approx(fmean(drawn), rel=2e-3)


def test_what_cannot_be_added_on_the_way_costs_more_with_each_rank() -> None:
    gathered = next(one for one in CODINGS if not one.sums)
    two, eight = (step(WORK, WorldShape(n, SLOW), coding=gathered).exchange for n in (2, 8))

    assert eight == pytest.approx(7 * two)
    assert step(WORK, WorldShape(8, SLOW), coding=PLAIN).exchange < 2 * (
        step(WORK, WorldShape(2, SLOW), coding=PLAIN).exchange
    )
