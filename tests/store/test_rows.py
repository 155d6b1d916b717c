"""An invalid row never ends a reader: at most it is one error sentence."""

from __future__ import annotations

import contextlib
import json
import logging
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from workbench.core.cluster.model import ClusterFact
from workbench.core.fleet.model import FleetWish, Node, NodeState, Purchase
from workbench.core.fleet.purchases import PurchaseOutcome, PurchaseRecord
from workbench.core.run.model import RunKind, RunWish
from workbench.core.run.rank_protocol import Batch, Chunk, Ending, Sample
from workbench.core.world.world import RankFact
from workbench.errors import RowUnreadable, StoreError
from workbench.pages.messages import cluster_message
from workbench.store import Store, rows

LAB = "lab"
# Whatever a column may hold, and texts that are nearly what is looked for.
VALUES = st.one_of(
    st.none(),
    st.integers(-(2**63), 2**63 - 1),
    st.floats(),
    st.text(max_size=20),
    st.binary(max_size=8),
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(
                st.sampled_from(["place", "needs", "hosts", "types", "survey", "state", "x"]),
                inner,
                max_size=3,
            )
        ),
        max_leaves=6,
    ).map(json.dumps),
)
TABLES = {
    "clusters": ["up", "ranks", "oversubscribe", "revision", "fleet"],
    "cluster_facts": ["state", "ranks", "generation", "message", "supervisor", "updated"],
    "ranks": ["host", "pid", "engine", "blas_threads", "versions", "address"],
    "runs": [
        "kind", "options", "origin", "created", "stop", "state", "generation", "ranks", "started",
        "ended", "iteration", "epoch",
        "failed_rank", "error", "message",
    ],
    "nodes": [
        "state", "slots", "price", "spent", "traffic", "launched", "head", "message", "since",
    ],
    "prices": ["price"],
    "purchases": ["purchase", "pass_number", "at", "outcome", "tries", "kind", "tags"],
    "surveys": ["time", "document"],
    "forecasts": ["source", "predictor", "found", "time"],
    "deliveries": ["ending"],
    "displays": ["data", "metadata"],
    "points": ["rank", "iteration", "time", "value"],
    "output": ["rank", "stream", "time", "text"],
    "latest": ["value", "iteration"],
    "open_pages": ["pages", "seen"],
    "settings": ["value"],
}  # fmt: skip


@pytest.fixture(scope="module")
def full(tmp_path_factory: pytest.TempPathFactory):
    """A store with a row in each table, and the id of its run."""
    with Store(tmp_path_factory.mktemp("rows") / "store.sqlite3") as store:
        fill(store)
        yield store


def fill(store: Store) -> None:
    run = "260101-000000-aaaa"
    store.wish_cluster(LAB, up=True, ranks=2, fleet=FleetWish("rehearsal", nodes=2))
    store.put_cluster_fact(ClusterFact(LAB))
    store.put_ranks(LAB, [RankFact(0, 0, "here", 1, 1)])
    store.wish_run(RunWish(run, "fit", RunKind.CELL, "pass", LAB, created=1.0))
    store.reports.add_batches(
        [
            Batch(run, 0, 1, (Sample("loss", 1, 0.0, 1.0),), (Chunk("stdout", 0.0, "x"),)),
            Batch(run, 0, 2, ending=Ending("finished")),
        ]
    )
    store.fleets.put_nodes(LAB, [Node("n", NodeState.READY)])
    store.fleets.put_prices(LAB, [("n", 1.0, 0.5)])
    store.fleets.put_purchase(
        PurchaseRecord(Purchase(LAB, "token", 0, 1, 1, ("cpu.2",)), 1, 1.0, PurchaseOutcome.WRITTEN)
    )
    store.put_open_pages(run, "server", 1, 1.0)
    with store.transaction() as connection:
        connection.execute("INSERT INTO surveys VALUES (?, ?, 1.0, '{}')", (run, LAB))
        connection.execute("INSERT INTO forecasts VALUES (1, ?, ?, 'plan', 1.0, '[]')", (LAB, run))
        connection.execute("INSERT INTO displays VALUES (1, 1, 0, 1, 0, 5, '{}', '{}')")
        connection.execute("INSERT INTO settings VALUES ('retention', '{}')")


READS = [
    lambda s, run: s.cluster_wish(LAB),
    lambda s, run: s.cluster_fact(LAB),
    lambda s, run: s.clusters(),
    lambda s, run: s.ranks(LAB, 0),
    lambda s, run: s.run(run),
    lambda s, run: (s.runs(), s.list_unfinished(LAB)),
    lambda s, run: (s.fleets.nodes(LAB, gone=True), s.fleets.prices(LAB), s.fleets.spent(LAB)),
    lambda s, run: (s.fleets.purchases(LAB), s.fleets.read_sent(LAB, "token")),
    lambda s, run: (s.surveys.of_run(run), s.surveys.of_cluster(LAB)),
    lambda s, run: s.surveys.forecasts(LAB, 1e12),
    lambda s, run: (s.reports.endings(run), s.displays.find(run, 1), s.displays.newest(run, 1000)),
    lambda s, run: (s.reports.points(run), s.reports.point_columns(run)),
    lambda s, run: (
        s.reports.output(run),
        s.reports.final_values(run),
        s.reports.steps(run),
        s.reports.spark(run, "loss", 5),
    ),
    lambda s, run: s.open_pages(run, 2.0),
    lambda s, run: (s.removal.retention(), s.removal.list_kept(), s.removal.oldest()),
    lambda s, run: cluster_message(s, LAB, 2.0),
]


@settings(
    derandomize=True,
    deadline=None,
    max_examples=1_000,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(
    st.sampled_from([(table, name) for table, names in TABLES.items() for name in names]), VALUES
)
def test_any_value_in_any_column_is_read_or_reported(full, where, value) -> None:
    table, column = where
    connection = full.connection
    connection.execute("BEGIN IMMEDIATE")
    try:
        connection.execute("PRAGMA ignore_check_constraints = 1")
        try:
            connection.execute(f"UPDATE {table} SET {column} = ?", (value,))
        except Exception:  # noqa: BLE001  # no such row can be
            return
        for read in READS:
            with contextlib.suppress(StoreError):  # a sentence
                read(full, "260101-000000-aaaa")
    finally:
        connection.execute("ROLLBACK")


def test_a_run_that_cannot_be_read_does_not_hide_the_others(
    store, wish, caplog, monkeypatch
) -> None:
    monkeypatch.setattr(rows, "_logged", set())
    good, bad = store.wish_run(wish("good")).id, store.wish_run(wish("bad")).id
    with store.transaction() as connection:
        connection.execute("UPDATE runs SET options = '{' WHERE id = ?", (bad,))

    with caplog.at_level(logging.WARNING):
        found = [run.id for run in store.runs() + store.runs()]

    assert found == [good, good]
    assert caplog.text.count("row of a run in the store") == 1
    with pytest.raises(RowUnreadable, match=r"row of run 'bad' .* be read \(.*another vers"):
        store.run("bad")


def test_threads_may_read_the_first_rows_at_the_same_moment() -> None:
    program = Path(__file__).parent / "programs" / "first_rows.py"

    answer = subprocess.run([sys.executable, program], capture_output=True, check=False)

    assert (answer.returncode, answer.stdout, answer.stderr) == (0, b"ended\n", b"")
