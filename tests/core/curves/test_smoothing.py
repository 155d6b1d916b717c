"""A noisy curve becomes legible without a lag, for any number of points."""

from __future__ import annotations

import math
import random
import statistics

import pytest

from workbench.view.pictures.curve_picture import smooth


def test_points_weigh_by_their_distance_to_both_sides():
    x = [0.0, 500.0, 1000.0]

    first, middle, last = smooth(x, [1.0, 4.0, 6.0], 0.5 / math.log(2))

    assert middle == pytest.approx(7.5 / 2)
    assert first == pytest.approx((1 + 2 + 1.5) / 1.75)
    assert last == pytest.approx((6 + 2 + 0.25) / 1.75)


def test_a_slope_does_not_lag():
    x = [float(i) for i in range(401)]

    assert smooth(x, x)[200] == pytest.approx(200)


@pytest.mark.parametrize("points", [400, 4000])
def test_noise_becomes_small(points):
    chance = random.Random(1)
    values = [chance.gauss(1, 0.5) for _ in range(points)]

    found = smooth([float(i) for i in range(points)], values)

    assert statistics.stdev(found) < 0.25 * statistics.stdev(values)


def test_what_is_not_finite_is_left_out():
    found = smooth([0.0, 1.0, 2.0], [2.0, math.nan, 2.0])

    assert found[0] == found[2] == 2.0
    assert math.isnan(found[1])


def test_nothing_is_smoothed_with_weight_0_and_nothing_is_nothing():
    assert smooth([0.0, 1.0], [1.0, 9.0], 0.0) == [1.0, 9.0]
    assert smooth([], []) == []
