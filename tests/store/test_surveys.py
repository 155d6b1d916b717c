"""A measurement arrives in a rank's batch, once, and is kept; so is a prediction, with its time."""

from __future__ import annotations

from dataclasses import replace

import pytest

from workbench.core.fleet.model import Node, NodeState
from workbench.core.performance.bandwidth import (
    RESULT_STREAM,
    BandwidthSurvey,
    Measurement,
    Pair,
    measurement_json,
)
from workbench.core.performance.exchange_model import Codec
from workbench.core.performance.prediction import (
    Forecasts,
    PredictedStep,
    Predictor,
    TrainingSetup,
)
from workbench.core.run.model import RunKind
from workbench.core.run.rank_protocol import Batch, Chunk
from workbench.errors import InputError
from workbench.requests import run
from workbench.requests.run import ask_measurement

DOING = TrainingSetup("any.1", 4, 4, 98e6, 32.0, Codec.FP16, bandwidth=1e8)
PREDICTED = PredictedStep(DOING, 0.5, 0.45, 0.55, "`--compress fp16`")


def measured(time: float, bandwidth: float = 1e8) -> Measurement:
    return Measurement(
        BandwidthSurvey(time, ("a", "b"), (Pair("a", "b", 1e-5, bandwidth),)), 2, 10.0
    )


def reported(run: str, found: Measurement, sequence: int = 1) -> Batch:
    chunks = (Chunk("stdout", 0.0, "1 of 2"), Chunk(RESULT_STREAM, 0.0, measurement_json(found)))
    return Batch(run, 0, sequence, chunks=chunks)


def test_a_measurement_is_kept_and_is_no_output(store, run) -> None:
    store.reports.add_batches([reported(run, measured(5.0))])

    assert store.surveys.of_run(run) == measured(5.0)
    assert [row.text for row in store.reports.output(run)] == ["1 of 2"]


def test_a_batch_that_comes_twice_is_kept_once(store, run) -> None:
    store.reports.add_batches([reported(run, measured(5.0)), reported(run, measured(6.0))])

    assert store.surveys.of_cluster("default") == [measured(5.0)]


def test_the_newest_measurement_comes_first(store, wish) -> None:
    for time in (3.0, 5.0, 4.0):
        run = store.wish_run(wish(f"at {time:g}")).id
        store.reports.add_batches([reported(run, measured(time))])

    assert [found.survey.time for found in store.surveys.of_cluster("default")] == [5.0, 4.0, 3.0]
    assert len(store.surveys.of_cluster("default", limit=1)) == 1
    assert store.surveys.of_cluster("another") == []


def test_what_measured_nothing_has_no_measurement(store, run) -> None:
    assert store.surveys.of_run(run) is None


def test_an_invalid_rating_is_refused(store) -> None:
    with pytest.raises(InputError, match="more than 0 Gbit/s, not -1"):
        ask_measurement(store, rating=-1)


def test_a_measurement_is_a_run_of_its_own_kind(home, store, monkeypatch) -> None:
    asked = {}
    monkeypatch.setattr(
        run, "ask_run", lambda _, options, **wish: asked.update(wish, options=options)
    )

    ask_measurement(store, rating=10)

    assert asked["kind"] is RunKind.MEASUREMENT
    assert dict(asked["options"].parameters) == {"rating": 10, "flow": 0.0, "source": ""}


def test_a_measurement_knows_what_the_slowest_node_sustains(home, store, monkeypatch) -> None:
    asked = {}
    monkeypatch.setattr(
        run, "ask_run", lambda _, options, **wish: asked.update(wish, options=options)
    )
    slow = Node("a", NodeState.JOINED, network=10.0, flow=5.0)
    store.fleets.put_nodes("default", (slow, replace(slow, id="b", network=12.5)))

    ask_measurement(store)

    assert dict(asked["options"].parameters) == {"rating": 10.0, "flow": 5.0, "source": ""}


def test_the_run_that_measured_last_is_known_by_its_cluster(store, wish) -> None:
    assert store.surveys.last("default") is None

    for time in (5.0, 4.0):
        run = store.wish_run(wish(f"at {time:g}")).id
        store.reports.add_batches([reported(run, measured(time))])

    newest, at = store.surveys.last("default")
    assert (store.run(newest).wish.name, at) == ("at 5", 5.0)
    assert store.surveys.last("lab") is None


# -- predictions


def forecasts(reported: float, *found: PredictedStep) -> Forecasts:
    return Forecasts(Predictor.PLAN, "a-run", reported, found or (PREDICTED,))


def test_what_was_predicted_is_found_again_the_newest_first(store) -> None:
    later = forecasts(2.0, replace(PREDICTED, seconds=0.4))
    for one in (forecasts(1.0), later, forecasts(9.0, replace(PREDICTED, seconds=0.3))):
        store.surveys.keep_forecasts("lab", one)

    assert store.surveys.forecasts("lab", before=3.0) == [later, forecasts(1.0)]
    assert store.surveys.forecasts("another", before=3.0) == []


def test_what_was_predicted_in_the_same_words_is_kept_once(store) -> None:
    for reported in (1.0, 2.0):
        store.surveys.keep_forecasts("lab", forecasts(reported))

    assert store.surveys.forecasts("lab", before=3.0) == [forecasts(1.0)]


def test_nothing_that_was_predicted_is_nothing_to_keep(store) -> None:
    store.surveys.keep_forecasts("lab", Forecasts(Predictor.VERDICT, "a-run", 1.0, ()))

    assert store.surveys.forecasts("lab", before=3.0) == []


def test_what_was_measured_before_a_run_is_that_of_the_present_nodes_until_it_is_measured_again(
    store,
) -> None:
    assert store.surveys.network("lab") is None

    for time in (1.0, 2.0):
        store.surveys.keep_network("lab", measured(time).survey)

    assert store.surveys.network("lab", {"a"}) == measured(2.0).survey
    assert store.surveys.network("lab", {"a", "c"}) is None
    assert store.surveys.last("lab") is None


def test_what_was_measured_between_the_nodes_goes_with_their_cluster(store) -> None:
    store.wish_cluster("lab", up=False, ranks=0)
    store.surveys.keep_network("lab", measured(1.0).survey)

    assert store.forget_cluster("lab")
    assert store.surveys.network("lab") is None
