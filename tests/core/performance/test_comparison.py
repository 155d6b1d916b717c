"""Compared runs: which is faster, beyond the noise, and which part explains it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workbench.core.performance.comparison import StepSummary, compare_runs
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
