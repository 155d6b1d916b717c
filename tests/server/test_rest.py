"""REST reads facts and writes wishes, and refuses what is not valid with a sentence."""

from __future__ import annotations

import asyncio
import base64
import sqlite3
import threading
import time
from dataclasses import replace

import pytest

from tests.batches import event_batch
from workbench import __version__
from workbench.core.cluster.model import ClusterFact, ClusterState, ResizeAt
from workbench.core.fleet.model import FleetWish, Node, NodeState, Offer
from workbench.core.performance.bandwidth import (
    RESULT_STREAM,
    BandwidthSurvey,
    Exchange,
    Measurement,
    Pair,
    Rate,
    measurement_json,
)
from workbench.core.run.model import RunKind, RunState, RunWish
from workbench.core.run.origin import Origin
from workbench.core.run.rank_protocol import Batch, Chunk, SnapshotSaved
from workbench.core.run.run_options import RunOptions
from workbench.core.run.sweep import Outcome, Space, SweepFact, SweepWish, Trial
from workbench.core.world.world import MAX_RANKS, RankFact
from workbench.pages import operations
from workbench.requests import cloud_queries, supervisor
from workbench.requests import cluster as cluster_requests
from workbench.requests.cloud_queries import CloudMarket
from workbench.store import Store, schema
from workbench.store.paths import snapshot_directory
from workbench.view import run_output

UNKNOWN = "260101-000000-aaaa"


@pytest.fixture(autouse=True)
def slots(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let every machine carry four ranks."""
    for module in (cluster_requests, operations):
        monkeypatch.setattr(module, "local_slots", lambda: 4)


# -- clusters


async def test_a_fresh_store_has_no_clusters(ask) -> None:
    answer = await ask("GET", "clusters")

    assert answer.status == 200
    assert answer.json == {
        "clusters": [], "slots": 4, "usual_ranks": 4, "max_ranks": MAX_RANKS,
        "version": __version__,
    }  # fmt: skip


async def test_clusters_are_listed_with_desired_and_observed_state(ask, store, begin) -> None:
    store.wish_cluster("lab", up=True, ranks=3)
    store.put_cluster_fact(ClusterFact("lab", ClusterState.RESIZING, 2, 7, "Growing."))
    store.put_ranks("lab", [RankFact(7, rank, "here", 100 + rank, rank) for rank in range(2)])
    run = begin("digits", cluster="lab")

    answer = await ask("GET", "clusters")

    (cluster,) = answer.json["clusters"]
    assert (cluster["name"], cluster["state"], cluster["message"]) == (
        "lab",
        "resizing",
        "Growing.",
    )
    assert (cluster["ranks_asked"], cluster["ranks_actual"], cluster["revision"]) == (3, 2, 1)
    assert cluster["ranks"][1] == {"rank": 1, "host": "here", "pid": 101}
    assert [found["id"] for found in cluster["runs"]] == [run.id]


@pytest.mark.parametrize(
    ("body", "ranks", "oversubscribe"),
    [
        (None, 4, False),
        ({}, 4, False),
        ({"ranks": 3}, 3, False),
        ({"ranks": 9, "oversubscribe": True}, 9, True),
    ],
)
async def test_a_cluster_is_brought_up(ask, store, body, ranks, oversubscribe) -> None:
    answer = await ask("PUT", "clusters", "lab", body=body)

    wish = store.cluster_wish("lab")
    assert (answer.status, answer.json["is_wanted"], answer.json["ranks_asked"]) == (
        200,
        True,
        ranks,
    )
    assert (wish.up, wish.ranks, wish.oversubscribe) == (True, ranks, oversubscribe)


async def test_a_cluster_that_was_up_before_gets_the_size_that_it_had(ask, store) -> None:
    store.wish_cluster("lab", up=False, ranks=3)

    answer = await ask("PUT", "clusters", "lab")

    assert (answer.json["ranks_asked"], store.cluster_wish("lab").up) == (3, True)


async def test_a_cluster_is_resized(ask, store, cluster) -> None:
    answer = await ask("PATCH", "clusters", cluster, body={"ranks": 3})

    assert (answer.status, answer.json["ranks_asked"], answer.json["revision"]) == (200, 3, 2)
    assert store.cluster_wish(cluster).ranks == 3


async def test_a_resize_waits_for_the_end_of_the_run_where_that_was_asked(
    ask, store, cluster
) -> None:
    await ask("PATCH", "clusters", cluster, body={"ranks": 3, "at": "end"})
    refused = await ask("PATCH", "clusters", cluster, body={"ranks": 3, "at": "noon"})

    assert store.cluster_wish(cluster).resize_at is ResizeAt.END
    assert refused.status == 400


async def test_of_two_resizes_the_later_wins_and_both_see_it(ask, store, cluster) -> None:
    asked = [ask("PATCH", "clusters", cluster, body={"ranks": ranks}) for ranks in (1, 3)]

    operations = await asyncio.gather(*asked)

    wish = store.cluster_wish(cluster)
    assert [answer.status for answer in operations] == [200, 200]
    assert wish.revision == 3
    latest = max((answer.json for answer in operations), key=lambda json: json["revision"])
    assert (latest["revision"], latest["ranks_asked"]) == (3, wish.ranks)


async def test_a_cluster_is_taken_down(ask, store, cluster) -> None:
    answer = await ask("DELETE", "clusters", cluster)

    assert (answer.status, answer.json["is_wanted"]) == (200, False)
    assert not store.cluster_wish(cluster).up


async def test_a_deleted_cluster_is_removed_and_its_runs_stay(ask, store, begin) -> None:
    store.wish_cluster("lab", up=False, ranks=1)
    run = begin("digits", cluster="lab")
    run.end()

    answer = await ask("POST", "clusters", "lab", "remove")

    assert (answer.status, answer.json) == (200, {"removed": "lab"})
    assert (await ask("GET", "clusters")).json["clusters"] == []
    assert store.run(run.id).wish.cluster == "lab"


async def test_a_cluster_that_is_up_is_not_removed(ask, store, cluster) -> None:
    answer = await ask("POST", "clusters", cluster, "remove")

    assert answer.status == 409
    assert store.cluster_wish(cluster).up


async def test_all_runs_of_a_cluster_are_asked_to_stop(ask, store, cluster, begin) -> None:
    runs = [begin(name) for name in ("one", "two", "over")]
    runs[2].end()
    other = begin("elsewhere", cluster="lab")

    answer = await ask("POST", "clusters", cluster, "stop")

    assert (answer.status, answer.json) == (200, {"stopped": ["one", "two"]})
    stopped = [store.run(run.id).wish.stop for run in (*runs, other)]
    assert stopped == [True, True, False, False]


async def test_a_wish_wakes_the_supervisor(ask, cluster, monkeypatch, awake, begin) -> None:
    begin()
    woken = []
    monkeypatch.setattr("workbench.requests.supervisor.supervisor_is_awake", lambda name: False)
    monkeypatch.setattr("workbench.requests.supervisor.wake_supervisor", woken.append)
    monkeypatch.setattr(cluster_requests, "wake_supervisor", woken.append)

    await ask("PATCH", "clusters", cluster, body={"ranks": 3})
    await ask("POST", "clusters", cluster, "stop")
    await ask("DELETE", "clusters", cluster)

    assert woken == [cluster] * 3


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("PATCH", ("clusters", "lab")),
        ("DELETE", ("clusters", "lab")),
        ("POST", ("clusters", "lab", "stop")),
    ],
)
async def test_a_cluster_that_no_one_asked_for_is_not_found(ask, store, method, path) -> None:
    answer = await ask(method, *path, body={"ranks": 2} if method == "PATCH" else None)

    assert (answer.status, answer.json["reason"]) == (404, "workbench")
    assert "'lab'" in answer.message
    assert store.clusters() == []


async def test_a_cluster_that_was_taken_down_meanwhile_is_not_resized(ask, store, cluster) -> None:
    store.wish_cluster(cluster, up=False, ranks=2)

    answer = await ask("PATCH", "clusters", cluster, body={"ranks": 3})

    assert (answer.status, answer.json["reason"]) == (404, "workbench")
    assert not store.cluster_wish(cluster).up


@pytest.fixture
def fleet(store) -> FleetWish:
    """The nodes of a cluster that is up."""
    fleet = FleetWish("rehearsal", nodes=3, min_nodes=2, budget=2.0, expires=time.time() + 3600)
    store.wish_cluster("lab", up=True, ranks=0, fleet=fleet)
    return fleet


async def test_nodes_and_money_are_reported(ask, store, fleet) -> None:
    node = Node("i-1", NodeState.JOINED, "10.0.0.1", 1, price=0.25, spent=0.1, launched=1.0)
    store.fleets.put_nodes("lab", [node, Node("i-2", NodeState.BOOTING, price=0.25)])

    (cluster,) = (await ask("GET", "clusters")).json["clusters"]

    assert (cluster["provider"], cluster["nodes_actual"], cluster["nodes_asked"]) == (
        "rehearsal", 1, 3,
    )  # fmt: skip
    assert (cluster["price"], cluster["spent"], cluster["budget"]) == (0.5, 0.1, 2.0)
    assert [one["state"] for one in cluster["nodes"]] == ["joined", "booting"]


async def test_a_cluster_of_nodes_is_resized_by_nodes(ask, store, fleet) -> None:
    answer = await ask("PATCH", "clusters", "lab", body={"nodes": 0})

    assert (answer.status, answer.json["nodes_asked"]) == (200, 0)
    assert store.cluster_wish("lab").fleet.nodes == 0


async def test_a_cluster_is_let_live_longer(ask, store, fleet) -> None:
    answer = await ask("POST", "clusters", "lab", "extend", body={"seconds": 600})

    assert answer.json["expires"] == pytest.approx(fleet.expires + 600)
    assert store.cluster_wish("lab").fleet.nodes == 3


async def test_a_deleted_cluster_is_this_machine_to_a_page(ask, store, fleet) -> None:
    store.wish_cluster("lab", up=False, ranks=0, fleet=replace(fleet, expires=1.0))

    (shown,) = (await ask("GET", "clusters")).json["clusters"]
    refused = await ask("PUT", "clusters", "lab", body={"nodes": 1})
    started = await ask("PUT", "clusters", "lab", body={"ranks": 1})

    assert (shown["provider"], shown["nodes"], shown["price"], shown["expires"]) == (
        "local", [], None, None,
    )  # fmt: skip
    assert (refused.status, started.status) == (409, 200)
    assert store.cluster_wish("lab").fleet == FleetWish()


async def test_more_nodes_that_cost_wait_for_a_yes_to_their_price(
    ask, store, fleet, monkeypatch
) -> None:
    store.wish_cluster("lab", up=True, ranks=0, fleet=replace(fleet, provider="ec2"))
    offer = Offer("c5.large", "a", 0.04, 2, 4.0, extra_price=0.01)
    monkeypatch.setattr(cloud_queries, "_ask", lambda *_, **__: CloudMarket("us-east-1", (offer,)))

    answer = await ask("PATCH", "clusters", "lab", body={"nodes": 4})

    assert (answer.status, store.cluster_wish("lab").fleet.nodes) == (402, 3)
    assert "4 nodes would cost about $0.20" in answer.message
    assert answer.json["price"] == pytest.approx(4 * (0.04 + 0.01))
    agreed = await ask(
        "PATCH", "clusters", "lab", body={"nodes": 4, "agreed": answer.json["price"]}
    )
    assert (agreed.status, store.cluster_wish("lab").fleet.nodes) == (200, 4)


async def test_nodes_of_a_form_are_started_at_the_price_that_was_shown(ask, store) -> None:
    form = {"provider": "rehearsal", "nodes": 2}
    unknown = await ask("PUT", "clusters", "lab", body={"form": form})
    found = (await ask("POST", "clusters", "lab", "offers", body=form)).json
    asked = await ask("PUT", "clusters", "lab", body={"form": form})

    started = await ask("PUT", "clusters", "lab", body={"form": form, "agreed": found["price"]})

    assert (unknown.status, asked.status, started.status) == (400, 402, 200)
    assert asked.json["price"] == found["price"]
    assert "Total $" in asked.message
    assert store.cluster_wish("lab").fleet.nodes == 2


async def test_nodes_in_other_zones_wait_for_a_word(ask, store, fleet, monkeypatch) -> None:
    store.wish_cluster("lab", up=True, ranks=0, fleet=replace(fleet, provider="ec2"))
    store.fleets.put_nodes(
        "lab", [Node("i-1", NodeState.JOINED, type="c5.large", zone="b", price=0.05)]
    )
    offer = Offer("c5.large", "a", 0.04, 2, 4.0)
    monkeypatch.setattr(cloud_queries, "_ask", lambda *_, **__: CloudMarket("us-east-1", (offer,)))

    refused = await ask("PATCH", "clusters", "lab", body={"nodes": 4})
    asked = await ask("PATCH", "clusters", "lab", body={"nodes": 4, "across_zones": True})
    body = {"nodes": 4, "across_zones": True, "agreed": 1.0}
    agreed = await ask("PATCH", "clusters", "lab", body=body)

    assert (refused.status, asked.status, agreed.status) == (409, 402, 200)
    assert "traffic between zones costs $0.01/GB on each side" in refused.message
    assert store.cluster_wish("lab").fleet.across_zones


@pytest.mark.parametrize("seconds", [0, -1, "60", 1e300])
async def test_an_invalid_time_is_refused(ask, store, fleet, seconds) -> None:
    answer = await ask("POST", "clusters", "lab", "extend", body={"seconds": seconds})

    assert answer.status == 400
    assert store.cluster_wish("lab").fleet == fleet


@pytest.mark.parametrize(
    ("body", "sentence"),
    [
        ({"ranks": 0}, "ranks must be at least 1, not 0"),
        ({"ranks": 5}, "5 ranks were asked for, but this machine has 4 slots"),
        ({"ranks": 10**15, "oversubscribe": True}, "ranks are too many; ask for at most 4096"),
        ({"ranks": "3"}, "ranks is '3'"),
        ({"ranks": 2.5}, "ranks is 2.5"),
        ({"ranks": True}, "ranks is True"),
        ({"ranks": 2, "oversubscribe": 1}, "oversubscribe is 1"),
        (
            {"ranks": 2, "size": 2},
            "it has an unknown field 'size'. Known fields: 'ranks', 'oversubscribe', 'nodes', ",
        ),
        ({"ranks": 2, "nodes": 3}, "Give one size: a number of ranks or a number of nodes."),
        ({"nodes": 2}, "Cluster 'default' runs on this machine alone; change its number"),
        ([1], "it is [1]; expected an object"),
        ("{", "it is b'{'; expected JSON"),
        (b"\xff", "expected JSON"),
        ("[" * 10_000, "expected JSON"),
        (" " * 128_001, "The body has 128,001 bytes; send at most 128,000."),
    ],
)
async def test_a_body_that_is_not_valid_is_refused(ask, store, cluster, body, sentence) -> None:
    for method in ("PUT", "PATCH"):
        answer = await ask(method, "clusters", cluster, body=body)

        assert (answer.status, answer.json["reason"]) == (400, "workbench")
        assert sentence in answer.message
    assert store.cluster_wish(cluster).revision == 1


async def test_a_resize_without_a_size_is_refused(ask, cluster) -> None:
    answer = await ask("PATCH", "clusters", cluster)

    assert (answer.status, answer.message) == (
        400, "Give one size: a number of ranks or a number of nodes.",
    )  # fmt: skip


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("DELETE", ("clusters", "default")),
        ("POST", ("clusters", "default", "stop")),
        ("POST", ("runs", UNKNOWN, "stop")),
        ("POST", ("runs", UNKNOWN, "resume")),
    ],
)
async def test_a_body_where_none_belongs_is_refused(ask, cluster, method, path) -> None:
    answer = await ask(method, *path, body={"force": True})

    assert (answer.status, answer.message) == (
        400,
        "What was sent is refused: it has an unknown field 'force'. Known fields: none.",
    )  # fmt: skip


@pytest.mark.parametrize("name", ["-lab", "..", "a b", "x" * 41, "%2e%2e%2f", "läb", "a\nb"])
@pytest.mark.parametrize("method", ["PUT", "PATCH", "DELETE"])
async def test_an_invalid_name_is_refused(ask, store, method, name) -> None:
    answer = await ask(method, "clusters", name, body={"ranks": 2} if method == "PATCH" else None)

    assert (answer.status, answer.json["reason"]) == (400, "workbench")
    assert "cannot name a cluster; use 1 to 40 letters" in answer.message
    assert store.clusters() == []


# -- runs


async def test_the_newest_runs_are_listed_first(ask, begin) -> None:
    runs = [begin(name, cluster) for name, cluster in
            [("a", "default"), ("b", "lab"), ("c", "default")]]  # fmt: skip
    runs[2].report(range(100))

    every = await ask("GET", "runs")
    default = await ask("GET", "runs", params={"cluster": "default", "1753000000000": ""})
    newest = await ask("GET", "runs", params={"limit": "1"})

    assert [run["name"] for run in every.json["runs"]] == ["c", "b", "a"]
    assert [run["name"] for run in default.json["runs"]] == ["c", "a"]
    assert [run["name"] for run in newest.json["runs"]] == ["c"]
    assert newest.json["runs"][0]["sparkline_name"] == "loss"
    assert len(newest.json["runs"][0]["sparkline"]) in range(10, 41)


@pytest.mark.parametrize("limit", ["0", "201", "ten", "1e1", "-1", "٣", "9" * 30, ""])
async def test_a_limit_that_is_not_valid_is_refused(ask, limit) -> None:
    answer = await ask("GET", "runs", params={"limit": limit})

    assert (answer.status, answer.json["reason"]) == (400, "workbench")
    assert "its limit is " in answer.message
    assert "; expected an integer" in answer.message


async def test_a_cluster_s_runs_are_asked_for_by_a_name(ask) -> None:
    answer = await ask("GET", "runs", params={"cluster": "../x"})

    assert answer.status == 400


async def test_a_run_is_reported(ask, run) -> None:
    run.report(range(10), loss=lambda i: 10 - i)

    answer = await ask("GET", "runs", run.id)

    assert (answer.status, answer.json["id"], answer.json["state"]) == (200, run.id, "running")
    assert answer.json["values"] == {"loss": 1.0}


async def test_a_value_that_is_no_number_is_null(ask, run, follow) -> None:
    run.report(range(1), nan=lambda _: float("nan"), inf=lambda _: float("inf"))

    answer = await ask("GET", "runs", run.id)
    async with follow(run.id) as page:
        hello = await page.hear_a("hello")

    assert answer.json["values"] == hello["run"]["values"] == {"nan": None, "inf": None}


async def test_a_run_is_asked_to_stop(ask, store, run) -> None:
    answer = await ask("POST", "runs", run.id, "stop")

    assert (answer.status, answer.json["is_stopping"]) == (200, True)
    assert store.run(run.id).wish.stop


async def test_stopping_a_run_that_has_ended_changes_nothing(ask, store, run) -> None:
    run.end()

    answer = await ask("POST", "runs", run.id, "stop")

    assert (answer.status, answer.json["state"]) == (200, "finished")
    assert not store.run(run.id).wish.stop


def save_snapshot(store: Store, run: str) -> None:
    """Put a snapshot of iteration 7 where the run's ranks would."""
    store.reports.add_batches([event_batch(run, SnapshotSaved(7), time=8.0)])
    folder = snapshot_directory(run) / "newest"
    folder.mkdir(parents=True)
    (folder / "manifest.json").write_text("{}")


async def test_a_run_that_was_stopped_is_resumed(ask, store, cluster, run) -> None:
    save_snapshot(store, run.id)
    run.end(RunState.STOPPED)
    offered = await ask("GET", "runs", run.id)

    answer = await ask("POST", "runs", run.id, "resume")

    assert offered.json["is_resumable"] is True
    assert (answer.status, answer.json["state"]) == (200, "queued")
    assert answer.json["is_resumable"] is False
    assert store.run(run.id).fact.attempt == 2


@pytest.mark.parametrize(
    ("state", "sentence"),
    [
        (RunState.RUNNING, "is running; wait for it, or stop it (Stop)."),
        (RunState.STOPPED, "has no snapshot; run it again; loops of workbench.elastic"),
    ],
)
async def test_a_run_that_cannot_be_resumed_is_refused(ask, store, run, state, sentence) -> None:
    store.put_run_fact(run.id, state=state)

    answer = await ask("POST", "runs", run.id, "resume")

    assert (answer.status, answer.json["reason"]) == (409, "workbench")
    assert sentence in answer.message
    assert store.run(run.id).fact.attempt == 1


@pytest.mark.parametrize(
    ("method", "rest"),
    [
        ("GET", ()),
        ("POST", ("stop",)),
        ("POST", ("resume",)),
        ("GET", ("bundle",)),
        ("GET", ("curves",)),
    ],
)
@pytest.mark.parametrize("identity", [UNKNOWN, "digits", "..", "a\0b", "x" * 2000])
async def test_a_run_is_found_by_its_id_alone(ask, begin, method, rest, identity) -> None:
    begin("digits")
    params = {"first": "0", "last": "9", "buckets": "9"} if rest == ("curves",) else {}

    answer = await ask(method, "runs", identity, *rest, params=params)

    assert (answer.status, answer.json["reason"]) == (404, "workbench")
    assert len(answer.message) < 300


async def test_a_run_s_id_leads_to_no_other_folder(http_server_client, jp_base_url, jp_auth_header):
    url = f"{jp_base_url}workbench/api/runs/..%2F..%2Fstore.sqlite3"

    answer = await http_server_client.fetch(url, headers=jp_auth_header, raise_error=False)

    assert answer.code == 404
    assert b"No run has the id '../../store.sqlite3'" in answer.body


async def test_a_run_that_has_the_id_of_another_is_not_mistaken_for_it(ask, begin) -> None:
    begin(UNKNOWN)

    answer = await ask("GET", "runs", UNKNOWN)

    assert answer.status == 404


# -- what is kept


async def test_what_stays_of_a_run_is_sent_once_it_has_ended(ask, run) -> None:
    run.report(range(10))
    run.write("hello\n")
    run.end()

    answer = await ask("GET", "runs", run.id, "bundle", request_timeout=60)

    assert answer.status == 200
    assert answer.json[run_output.RUN_TYPE]["saved"]["run"]["state"] == "finished"
    assert base64.b64decode(answer.json["image/png"]).startswith(b"\x89PNG")
    assert "hello" in answer.json["text/html"]
    assert "text/plain" in answer.json


async def test_what_stays_is_drawn_once_for_all_pages(ask, begin, monkeypatch) -> None:
    drawn = []
    monkeypatch.setattr(
        run_output, "kept_bundle", lambda store, run, now: drawn.append(run.id) or {"run": run.id}
    )
    runs = [begin(), begin()]
    for run in runs:
        run.end()

    operations = [await ask("GET", "runs", runs[i].id, "bundle") for i in (0, 1, 0, 1)]

    assert [answer.json["run"] for answer in operations] == [runs[i].id for i in (0, 1, 0, 1)]
    assert drawn == [run.id for run in runs]


async def test_nothing_stays_of_a_run_that_continues(ask, begin) -> None:
    run = begin("digits")

    answer = await ask("GET", "runs", run.id, "bundle")

    assert (answer.status, answer.json["reason"]) == (409, "workbench")
    assert answer.message == "Run 'digits' is running; try again after it has ended."


# -- zooming


async def test_a_part_of_the_curves_comes_in_finer_buckets(ask, run, decode) -> None:
    run.report(range(10_000))

    answer = await ask(
        "GET", "runs", run.id, "curves", params={"first": "100", "last": "199", "buckets": "100"}
    )

    frame = decode(answer.body)
    assert answer.status == 200
    assert frame.series["loss"]["x"].tolist() == list(range(100, 200))


@pytest.mark.parametrize(
    ("params", "sentence"),
    [
        ({}, "it lacks 'first'"),
        ({"first": "-1"}, "its first is -1; expected an integer >= 0."),
        ({"first": "5", "last": "4", "buckets": "9"}, "expected last of at least 5"),
        ({"first": "5", "last": "5"}, "it lacks 'buckets'"),
        (
            {"first": "5", "last": "5", "buckets": "1"},
            "its buckets is 1; expected an",
        ),
        ({"first": "5", "last": "5", "buckets": "4001"}, "expected an integer <= 4000."),
        ({"first": "5", "last": "9" * 20, "buckets": "2"}, "; expected an integer."),
    ],
)
async def test_a_part_that_is_not_valid_is_refused(ask, run, params, sentence) -> None:
    answer = await ask("GET", "runs", run.id, "curves", params=params)

    assert (answer.status, answer.json["reason"]) == (400, "workbench")
    assert sentence in answer.message


# -- bad luck


async def test_a_store_that_a_newer_workbench_wrote_is_reported_for_each_call(
    ask, home, store
) -> None:
    with sqlite3.connect(store.path) as connection:
        connection.execute(f"PRAGMA user_version = {schema.VERSION + 1}")
    connection.close()

    answer = await ask("GET", "clusters")

    assert (answer.status, answer.json["reason"]) == (503, "workbench")
    assert "newer" in answer.message


async def test_a_store_that_is_busy_is_reported_and_others_are_not_held_up(
    ask, store, cluster, extension
) -> None:
    extension.workers.lock_seconds = 0.5
    with sqlite3.connect(store.path, isolation_level=None) as other:
        other.execute("BEGIN IMMEDIATE")
        wish = asyncio.ensure_future(ask("DELETE", "clusters", cluster))
        await asyncio.sleep(0.05)

        begun = time.monotonic()
        read = await ask("GET", "clusters")
        waited = time.monotonic() - begun
        refused = await wish
        other.execute("ROLLBACK")
    other.close()

    assert (read.status, waited < 0.3) == (200, True)
    assert (refused.status, refused.json["reason"]) == (503, "workbench")
    assert "was busy" in refused.message


async def test_a_supervisor_that_does_not_start_is_reported(ask, store, monkeypatch) -> None:
    monkeypatch.setattr(supervisor, "supervisor_is_awake", lambda name: False)
    monkeypatch.setattr(supervisor.sys, "executable", "/nowhere/python")

    answer = await ask("PUT", "clusters", "lab", body={"ranks": 2})

    assert (answer.status, answer.json["reason"]) == (503, "workbench")
    assert "could not be started" in answer.message


async def test_a_data_directory_that_cannot_be_made_is_reported(ask, tmp_path, monkeypatch) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("WORKBENCH_HOME", str(tmp_path / "file" / "home"))

    answer = await ask("GET", "runs")

    assert (answer.status, answer.json["reason"]) == (503, "workbench")
    assert "set WORKBENCH_HOME" in answer.message


async def test_the_store_s_threads_are_not_the_server_s(ask, monkeypatch) -> None:
    threads = []
    monkeypatch.setattr(
        operations, "local_slots", lambda: threads.append(threading.current_thread().name) or 4
    )

    await ask("GET", "clusters")

    assert [name.startswith("workbench_") for name in threads] == [True]


async def test_a_run_says_what_it_is_made_of(ask, store) -> None:
    origin = Origin("/w/a.ipynb", "1a2b3c", (("TOKEN", "secret-value"),))
    arguments = ("--lr", "0.2")
    script = RunWish(
        "260101-000000-made",
        "fit",
        RunKind.SCRIPT,
        "a = 1",
        options=RunOptions(arguments=arguments),
        origin=origin,
    )
    store.wish_run(script)

    answer = await ask("GET", "runs", script.id, "about")

    assert answer.json["source"] == "a = 1"
    assert answer.json["parts"]["arguments"] == "--lr 0.2"
    assert answer.json["parts"]["git commit"] == "1a2b3c"
    assert answer.json["parts"]["variables"] == "TOKEN"
    assert "secret-value" not in str(answer.json)


RUN = RunWish("260101-000000-zzzz", "fit", RunKind.CELL, "pass")
SWEEP = SweepWish("s", "fit", RUN, (("lr", Space((0.1, 0.2))),), 2, "loss", created=1.0)


def begin(store: Store) -> None:
    store.sweeps.wish(SWEEP, None, None)
    trial = Trial("s", 0, (("lr", 0.1),), RUN.id, Outcome.FINISHED, 0.5, began=1.0, ended=2.0)
    store.sweeps.begin(trial, RUN)


async def test_sweeps_are_listed_with_how_far_they_are(ask, store) -> None:
    assert (await ask("GET", "sweeps")).json == {"sweeps": []}

    begin(store)

    said = "1 finished of 2 trials · best loss 0.5"
    listed = {"id": "s", "name": "fit", "progress": said, "is_over": False}
    assert (await ask("GET", "sweeps")).json == {"sweeps": [listed]}


async def test_a_sweep_comes_with_its_trials_and_their_picture(ask, store) -> None:
    begin(store)
    store.sweeps.close("s", SweepFact("All 2 trials have ended."))

    answer = (await ask("GET", "sweeps/s")).json

    assert (answer["is_over"], answer["progress"]) == (True, "All 2 trials have ended.")
    assert answer["lines"][1] == "The best is trial 0: loss 0.5 with lr=0.1."
    assert answer["headers"] == ["trial", "loss", "lr", "state", "time", "error"]
    assert answer["rows"] == [["0", "0.5", "0.1", "finished", "1.0 s", ""]]
    assert base64.b64decode(answer["picture"]).startswith(b"\x89PNG")
    assert answer["says"] == "1 trial of fit; the best has loss 0.5."


async def test_a_sweep_that_there_is_not_is_not_found(ask) -> None:
    answer = await ask("GET", "sweeps/fat")

    assert answer.status == 404
    assert "No sweep is called 'fat'" in answer.json["message"]


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
