"""Corrections are learned from the errors of predictions."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workbench.core.performance.calibration import (
    Correction,
    PredictionOutcome,
    corrected,
    learned,
    varied,
)

SECONDS = st.floats(1e-3, 10)


def test_nothing_is_learned_from_nothing() -> None:
    assert learned([]) == Correction()


def test_a_network_that_takes_twice_as_long_is_believed_bit_by_bit() -> None:
    once, often = (learned([PredictionOutcome(0.2, 0.6, 1.0)] * count) for count in (1, 20))

    assert 1 < once.factor < often.factor < 2
    assert often.factor == pytest.approx(1.7, abs=0.1)


def test_a_forecast_nears_what_came() -> None:
    outcome = PredictionOutcome(0.2, 0.6, 1.0)
    before = abs(0.6 - 1.0)

    after = abs(corrected(0.2, 0.6, learned([outcome, outcome])) - 1.0)

    assert after < before


def test_the_newest_outcome_counts_most() -> None:
    slow, fast = PredictionOutcome(0.2, 0.6, 1.0), PredictionOutcome(0.2, 0.6, 0.4)

    assert learned([slow, fast]).factor > 1 > learned([fast, slow]).factor


def test_a_step_without_communication_teaches_nothing_of_it() -> None:
    assert learned([PredictionOutcome(0.2, 0.201, 0.5)]).count == 0


@given(st.lists(st.builds(PredictionOutcome, SECONDS, SECONDS, SECONDS), max_size=20))
def test_whatever_came_the_model_is_not_bent_out_of_shape(
    outcomes: list[PredictionOutcome],
) -> None:
    correction = learned(outcomes)

    assert 0.25 <= correction.factor <= 4
    assert correction == learned(outcomes)


def test_what_is_repeated_tells_how_much_it_varies() -> None:
    steady, unsteady = [[1.0, 1.0, 1.0]], [[1.0, 2.0] * 20, [3.0]]

    assert varied([], 0.02) == varied(steady, 0.02) == 0.02
    assert varied(unsteady, 0.02) == pytest.approx(math.log(2) / 2, rel=0.05)
    assert varied([[1.0, 0.0]], 0.02) == 0.02  # what took no time was not measured
