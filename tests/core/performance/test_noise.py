"""The noise of a run is the variation of its windows, and predictions include it."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from workbench.core.performance.comparison import UNKNOWN_NOISE, noise_of, scale_band, widen_range


@pytest.mark.parametrize("noise", [0.01, 0.1, 0.3])
def test_the_noise_of_normal_windows_is_found(noise: float) -> None:
    windows = np.random.default_rng(0).normal(0.02, 0.02 * noise, (3, 400))

    assert noise_of(windows.tolist()) == pytest.approx(noise, rel=0.15)


def test_a_window_with_an_evaluation_in_it_is_no_noise() -> None:
    assert noise_of([[0.02] * 9 + [0.5]]) == 0


def test_of_a_short_run_the_noise_is_not_known() -> None:
    assert noise_of([[0.02, 0.04, 0.02]]) == noise_of([]) == UNKNOWN_NOISE


@given(st.floats(0, 1), st.floats(0, 1))
def test_noise_of_either_run_makes_a_range_wider(one: float, other: float) -> None:
    low, high = widen_range(1.0, 2.0, one, other)

    assert low <= 1
    assert high >= 2
    assert high / low >= widen_range(1.0, 2.0, one)[1] / widen_range(1.0, 2.0, one)[0] * (1 - 1e-9)


def test_the_band_of_a_scale_leaves_out_what_is_rare() -> None:
    assert scale_band([100.0] + [400.0] * 18 + [9000.0]) == (400.0, 400.0)
    assert scale_band([400.0]) is None
