"""A measurement is stored as text, and repetition ends when the times agree."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from workbench.core.performance.bandwidth import (
    BandwidthSurvey,
    Exchange,
    Measurement,
    Pair,
    Rate,
    is_enough,
    measurement_json,
    measurement_of,
    sizes_up_to,
)


def test_a_measurement_comes_back_as_it_was_kept() -> None:
    survey = BandwidthSurvey(
        12.5, ("a", "b"), (Pair("a", "b", 1e-5, 1e8),), (Exchange(1000, 0.5, 2, "ring"),), 2e8
    )
    found = Measurement(survey, 4, 30.0, (Rate("a", "disk read", 1e8),), ("the rest.",))

    assert measurement_of(measurement_json(found)) == found


@given(st.lists(st.floats(0.1, 10.0), min_size=3, max_size=20))
def test_repeating_ends_when_the_better_half_is_alike(seconds: list[float]) -> None:
    ordered = sorted(seconds)

    assert is_enough(seconds) == (ordered[len(ordered) // 2] <= 1.05 * ordered[0])


def test_two_repetitions_are_not_enough() -> None:
    assert not is_enough([1.0, 1.0])
    assert is_enough([1.0, 1.0, 50.0])


def test_sizes_grow_up_to_the_largest() -> None:
    assert sizes_up_to(256_000) == (1_000, 4_000, 16_000, 64_000, 256_000)
    assert sizes_up_to(100_000)[-2:] == (64_000, 100_000)
