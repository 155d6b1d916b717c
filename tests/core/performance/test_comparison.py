"""Compared runs: which is faster, beyond the noise, and which part explains it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from workbench.core.performance.comparison import (
    UNKNOWN_NOISE,
    StepSummary,
    compare_runs,
    noise_of,
    scale_band,
    widen_range,
)
from workbench.core.performance.step_sampling import LABELS

# The page reads the same cases, and has to say the same.
CASES = Path(__file__).parents[3] / "extension/src/__tests__/comparison.json"
SECONDS = st.floats(1e-4, 1)
STEPS = st.builds(
    StepSummary,
    st.fixed_dictionaries({"compute": SECONDS, "waiting": SECONDS, "moving": SECONDS}),
    st.floats(0, 0.5),
    st.sampled_from([0.0, 32.0, 64.0]),
)


def cases() -> list[dict[str, Any]]:
    return json.loads(CASES.read_text())["cases"]


def summary(step: dict[str, Any] | None) -> StepSummary | None:
    return StepSummary(**step) if step else None


@pytest.mark.parametrize("case", cases(), ids=lambda case: case["name"])
def test_python_says_of_runs_side_by_side_what_the_page_says(case) -> None:
    assert compare_runs([(name, summary(step)) for name, step in case["runs"]]) == case["said"]


def test_parts_have_the_same_names_in_the_same_order_as_on_the_page() -> None:
    assert json.loads(CASES.read_text())["labels"] == [list(pair) for pair in LABELS.items()]


@given(STEPS, STEPS)
def test_the_order_in_which_runs_are_named_does_not_matter(one, other) -> None:
    assert compare_runs([("a", one), ("b", other)]) == compare_runs([("b", other), ("a", one)])


@given(STEPS, STEPS)
def test_no_difference_is_reported_that_is_less_than_the_noise(one, other) -> None:
    said = compare_runs([("a", one), ("b", other)])

    times = max(one.total, other.total) / min(one.total, other.total)
    if one.batch == other.batch and times < 1 + max(one.noise, other.noise):
        assert said.startswith("These runs are equally fast within the noise")


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
