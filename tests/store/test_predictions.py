"""A prediction is stored once, and found by the time at which it was known."""

from __future__ import annotations

from dataclasses import replace

import pytest

from workbench.core.performance.exchange_model import Codec
from workbench.core.performance.prediction import (
    ANY,
    Forecasts,
    PredictedStep,
    Predictor,
    TrainingSetup,
    prediction_for,
)

DOING = TrainingSetup("any.1", 4, 4, 98e6, 32.0, Codec.FP16, bandwidth=1e8)
PREDICTED = PredictedStep(DOING, 0.5, 0.45, 0.55, "`--compress fp16`")


def forecasts(reported: float, *found: PredictedStep) -> Forecasts:
    return Forecasts(Predictor.PLAN, "a-run", reported, found or (PREDICTED,))


def test_what_was_predicted_is_found_again_the_newest_first(store) -> None:
    later = forecasts(2.0, replace(PREDICTED, seconds=0.4))
    for one in (forecasts(1.0), later, forecasts(9.0, replace(PREDICTED, seconds=0.3))):
        store.keep_forecasts("lab", one)

    assert store.forecasts("lab", before=3.0) == [later, forecasts(1.0)]
    assert store.forecasts("another", before=3.0) == []


def test_what_was_predicted_in_the_same_words_is_kept_once(store) -> None:
    for reported in (1.0, 2.0):
        store.keep_forecasts("lab", forecasts(reported))

    assert store.forecasts("lab", before=3.0) == [forecasts(1.0)]


def test_nothing_that_was_predicted_is_nothing_to_keep(store) -> None:
    store.keep_forecasts("lab", Forecasts(Predictor.VERDICT, "a-run", 1.0, ()))

    assert store.forecasts("lab", before=3.0) == []


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
