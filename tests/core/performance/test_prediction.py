"""A prediction holds for a run that is as it was predicted."""

from __future__ import annotations

from dataclasses import replace

import pytest

from workbench.core.performance.exchange_model import Codec
from workbench.core.performance.prediction import (
    ANY,
    PredictedStep,
    TrainingSetup,
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
