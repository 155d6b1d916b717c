"""A prediction holds for a run that is as it was predicted."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workbench.core.performance.exchange_model import Codec
from workbench.core.performance.prediction import (
    ANY,
    Correction,
    PredictedStep,
    PredictionOutcome,
    TrainingSetup,
    correct_seconds,
    learn_correction,
    measure_variation,
    prediction_for,
)

DOING = TrainingSetup("any.1", 4, 4, 98e6, 32.0, Codec.FP16, bandwidth=1e8)
PREDICTED = PredictedStep(DOING, 0.5, 0.45, 0.55, "`--compress fp16`")


@pytest.mark.parametrize(
    ("changes", "is_it"),
    [
        ({}, True),
        ({"nbytes": 98.5e6}, True),
        ({"bandwidth": 1.1e8}, True),
        ({"nodes": 3}, False),
        ({"codec": Codec.NONE}, False),
        ({"ours": False}, False),
        ({"stale": True}, False),
        ({"batch": 64.0}, False),
        ({"bandwidth": 2e8}, False),
        ({"type": "other.1"}, False),
    ],
)
def test_a_run_did_what_was_predicted_only_if_it_did_all_of_it(changes, is_it) -> None:
    assert (prediction_for(replace(DOING, **changes), [PREDICTED]) is PREDICTED) is is_it


def test_of_faster_nodes_any_type_will_do() -> None:
    anywhere = replace(PREDICTED, doing=replace(DOING, type=ANY))

    assert prediction_for(replace(DOING, type="other.1"), [anywhere]) is anywhere


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
