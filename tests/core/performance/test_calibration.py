"""Corrections are learned from the errors of predictions."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workbench.core.performance.prediction import (
    Correction,
    PredictionOutcome,
    correct_seconds,
    learn_correction,
    measure_variation,
)

SECONDS = st.floats(1e-3, 10)


def test_nothing_is_learned_from_nothing() -> None:
    assert learn_correction([]) == Correction()


def test_a_network_that_takes_twice_as_long_is_believed_bit_by_bit() -> None:
    once, often = (
        learn_correction([PredictionOutcome(0.2, 0.6, 1.0)] * count) for count in (1, 20)
    )

    assert 1 < once.factor < often.factor < 2
    assert often.factor == pytest.approx(1.7, abs=0.1)


def test_a_forecast_nears_what_came() -> None:
    outcome = PredictionOutcome(0.2, 0.6, 1.0)
    before = abs(0.6 - 1.0)

    after = abs(correct_seconds(0.2, 0.6, learn_correction([outcome, outcome])) - 1.0)

    assert after < before


def test_the_newest_outcome_counts_most() -> None:
    slow, fast = PredictionOutcome(0.2, 0.6, 1.0), PredictionOutcome(0.2, 0.6, 0.4)

    assert learn_correction([slow, fast]).factor > 1 > learn_correction([fast, slow]).factor


def test_a_step_without_communication_teaches_nothing_of_it() -> None:
    assert learn_correction([PredictionOutcome(0.2, 0.201, 0.5)]).count == 0


@given(st.lists(st.builds(PredictionOutcome, SECONDS, SECONDS, SECONDS), max_size=20))
def test_whatever_came_the_model_is_not_bent_out_of_shape(
    outcomes: list[PredictionOutcome],
) -> None:
    correction = learn_correction(outcomes)

    assert 0.25 <= correction.factor <= 4
    assert correction == learn_correction(outcomes)


def test_what_is_repeated_tells_how_much_it_varies() -> None:
    steady, unsteady = [[1.0, 1.0, 1.0]], [[1.0, 2.0] * 20, [3.0]]

    assert measure_variation([], 0.02) == measure_variation(steady, 0.02) == 0.02
    assert measure_variation(unsteady, 0.02) == pytest.approx(math.log(2) / 2, rel=0.05)
    assert measure_variation([[1.0, 0.0]], 0.02) == 0.02  # what took no time was not measured
