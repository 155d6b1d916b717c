"""A page has a cluster measured, and gets the result."""

from __future__ import annotations

import base64
import time

import pytest

from workbench.core.performance.bandwidth import (
    RESULT_STREAM,
    BandwidthSurvey,
    Exchange,
    Measurement,
    Pair,
    Rate,
    measurement_json,
)
from workbench.core.run.model import RunKind, RunState
from workbench.core.run.rank_protocol import Batch, Chunk

GBIT = 1e9 / 8
NAMES = ("alpha", "beta")


def found(at: float, back: float = 1.4) -> Measurement:
    """What two nodes would find; the second sends at ``back`` Gbit/s."""
    pairs = (Pair(*NAMES, 50e-6, 1.4 * GBIT), Pair(*reversed(NAMES), 60e-6, back * GBIT))
    exchanges = (Exchange(1000, 1e-4, 2, "workbench", "ring"), Exchange(1000, 2e-4, 2, "mpi"))
    rates = (Rate("alpha", "disk write", 3e8),)
    return Measurement(
        BandwidthSurvey(at, NAMES, pairs, exchanges, rating=10 * GBIT), 2, 12.5, rates
    )


@pytest.fixture
def measure(ask, store, cluster):
    """Have the cluster measured, with this result."""

    async def measure(result: Measurement) -> str:
        run = (await ask("POST", "clusters", cluster, "measure")).json["id"]
        chunk = Chunk(RESULT_STREAM, 0.0, measurement_json(result))
        store.reports.add_batches([Batch(run, 0, 1, chunks=(chunk,))])
        store.put_run_fact(run, state=RunState.FINISHED, ended=result.survey.time)
        return run

    return measure


async def test_a_measurement_is_asked_for(ask, store, cluster) -> None:
    answer = await ask("POST", "clusters", cluster, "measure")

    assert answer.json["kind"] == "measurement"
    (run,) = store.list_unfinished(cluster)
    assert (run.id, run.wish.kind) == (answer.json["id"], RunKind.MEASUREMENT)


async def test_who_asks_while_one_is_on_gets_that_one(ask, store, cluster) -> None:
    first = await ask("POST", "clusters", cluster, "measure")
    second = await ask("POST", "clusters", cluster, "measure")

    assert second.json["id"] == first.json["id"]
    assert len(store.list_unfinished(cluster)) == 1


async def test_one_that_is_being_cancelled_does_not_replace_a_new_one(ask, store, cluster) -> None:
    first = (await ask("POST", "clusters", cluster, "measure")).json["id"]
    await ask("POST", "runs", first, "stop")

    refused = await ask("POST", "clusters", cluster, "measure")
    store.put_run_fact(first, state=RunState.STOPPED)
    second = await ask("POST", "clusters", cluster, "measure")

    assert refused.status == 409
    assert "being cancelled" in refused.message
    assert second.json["id"] != first


async def test_a_cluster_that_no_one_wants_up_is_not_started_for_it(ask, store, cluster) -> None:
    store.wish_cluster(cluster, up=False, ranks=2)

    answer = await ask("POST", "clusters", cluster, "measure")

    assert answer.status == 409
    assert (
        answer.message == "Cluster 'default' is not up, so it cannot be measured; start it first."
    )
    assert store.list_unfinished(cluster) == []


async def test_a_cluster_that_no_one_asked_for_is_not_measured(ask) -> None:
    answer = await ask("POST", "clusters", "lab", "measure")

    assert (answer.status, answer.json["reason"]) == (404, "workbench")


async def test_what_was_found_is_reported(ask, measure) -> None:
    run = await measure(found(time.time()))

    said = (await ask("GET", "runs", run, "survey")).json

    tables = {table["title"]: table for table in said["tables"]}
    assert said["heading"].startswith("2 nodes with 2 ranks, measured ")
    assert tables["Links"]["rows"] == [
        ["alpha → beta", "1.4", "50"], ["beta → alpha", "1.4", "60"],
    ]  # fmt: skip
    assert tables["Links"]["is_open"]
    assert tables["Allreduce"]["rows"][0][1].endswith("ring")
    assert tables["On each node"]["rows"] == [["alpha", "disk write", "300 MB/s"]]
    assert said["description"].startswith("links between 2 nodes")
    assert base64.b64decode(said["picture"]).startswith(b"\x89PNG")


async def test_the_slowest_link_is_named_and_what_has_changed(ask, measure) -> None:
    now = time.time()
    await measure(found(now - 3600))
    run = await measure(found(now, back=0.5))

    said = (await ask("GET", "runs", run, "survey")).json

    assert said["remarks"][0].startswith("The slowest link is from beta to alpha: 0.5")
    assert any("lost" in remark for remark in said["remarks"]), said["remarks"]


async def test_a_run_that_measured_nothing_has_nothing_to_show(ask, run) -> None:
    answer = await ask("GET", "runs", run.id, "survey")

    assert answer.status == 404
    assert answer.message.endswith("has measured nothing; ask again once it has ended.")


async def test_a_cluster_tells_which_run_measured_it_last(ask, measure) -> None:
    assert (await ask("GET", "clusters")).json["clusters"][0]["measured"] is None

    await measure(found(5.0))
    newest = await measure(found(9.0))

    (reported,) = (await ask("GET", "clusters")).json["clusters"]
    assert reported["measured"] == {"run": newest, "time": 9.0}
