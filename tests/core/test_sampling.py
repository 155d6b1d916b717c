"""Thinned curves keep every extreme, and drawing keeps to its ration."""

from __future__ import annotations

import math

from hypothesis import given
from hypothesis import strategies as st

from workbench.core.sampling import Curve, Ration


def test_a_short_curve_is_kept_as_it_is() -> None:
    curve = Curve()

    for iteration in range(1, 6):
        curve.add(0, iteration, iteration * 0.5)

    assert curve.trace().iterations == (1, 2, 3, 4, 5)
    assert curve.trace().mean == (0.5, 1.0, 1.5, 2.0, 2.5)
    assert not curve.trace().has_band


def test_ranks_that_differ_make_a_mean_and_a_band() -> None:
    curve = Curve()

    for rank, value in enumerate((1.0, 2.0, 6.0)):
        curve.add(rank, 10, value)

    trace = curve.trace()
    assert (trace.mean, trace.low, trace.high) == ((3.0,), (1.0,), (6.0,))
    assert trace.has_band
    assert curve.ranks == {0, 1, 2}


def test_a_spike_among_a_million_points_survives_in_few_buckets() -> None:
    curve = Curve(capacity=100)

    for iteration in range(100_000):
        curve.add(0, iteration, 9.0 if iteration == 77_777 else 1.0)

    assert len(curve) <= 100
    assert max(curve.trace().high) == 9.0


def test_a_value_that_is_no_number_leaves_a_gap() -> None:
    curve = Curve()

    curve.add(0, 1, math.nan)
    curve.add(0, 2, math.inf)
    curve.add(0, 3, 1.0)

    assert [math.isnan(value) for value in curve.trace().mean] == [True, True, False]


@given(
    st.lists(st.tuples(st.integers(0, 10**6), st.floats(-1e6, 1e6)), min_size=1, max_size=300),
    st.integers(1, 20),
)
def test_extremes_and_ends_are_kept_whatever_the_order(points, capacity) -> None:
    curve = Curve(capacity)

    for iteration, value in points:
        curve.add(0, iteration, value)

    trace = curve.trace()
    assert len(curve) <= capacity
    assert max(trace.high) == max(value for _, value in points)
    assert min(trace.low) == min(value for _, value in points)
    assert list(trace.iterations) == sorted(trace.iterations)


def test_the_first_drawing_is_due_at_once() -> None:
    assert Ration(interval=1, allowance=0, share=0.01).due(now=100.0)


def test_a_second_drawing_waits_for_the_interval() -> None:
    ration = Ration(interval=1, allowance=1, share=0.01)

    ration.spend(now=100.0, cost=0.05)

    assert not ration.due(now=100.5)
    assert ration.due(now=101.0)


def test_drawing_takes_no_more_than_its_share_of_the_time() -> None:
    ration = Ration(interval=1, allowance=0.3, share=0.01)
    drawn = 0

    for now in range(10_000):
        if ration.due(now):
            ration.spend(now, cost=0.05)
            drawn += 1

    assert drawn * 0.05 <= 0.3 + 0.01 * 10_000 + 0.05
    assert drawn > 1_000
