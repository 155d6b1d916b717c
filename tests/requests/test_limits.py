"""Each request for a cluster is held to the limits of WORKBENCH_LIMITS before anything starts."""

from __future__ import annotations

import pytest

from tests.requests.conftest import has_started
from tests.requests.test_resize import unasked
from tests.requests.test_resume import save, stopped
from workbench.core.cluster.size import Size
from workbench.core.fleet.model import FleetWish, Node, NodeState
from workbench.core.run.model import RunKind
from workbench.core.run.run_options import RunOptions
from workbench.errors import MachineError, StateError
from workbench.requests import cluster as requests_cluster
from workbench.requests.cluster import LIMITS_VARIABLE, ask_cluster, ask_down, ask_size
from workbench.requests.resume import ask_resume
from workbench.requests.run import ask_measurement, ask_run

RENTED = FleetWish("ec2", nodes=2, slots=1, region="us-east-1", max_price=1.0, budget=5.0)
RULE = r"The limits in .*limits.toml allow ann 2 ranks, and .* would come to [34] ranks"


@pytest.fixture(autouse=True)
def limits(monkeypatch, tmp_path):
    """Allow two ranks and two nodes."""
    monkeypatch.setattr(requests_cluster, "local_slots", lambda: 4)
    file = tmp_path / "limits.toml"
    file.write_text("ranks = 2\nnodes = 2\nmax_price = 2.0\nbudget = 8\n")
    monkeypatch.setenv(LIMITS_VARIABLE, str(file))
    monkeypatch.setenv("JUPYTERHUB_USER", "ann")
    return file


@pytest.mark.parametrize(
    "ask",
    [
        lambda store: ask_cluster(store, 3),
        lambda store: ask_size(store, Size(3)),
        lambda store: ask_run(
            store, RunOptions(ranks=3), kind=RunKind.CELL, source="pass", name="big"
        ),
        lambda store: ask_run(store, kind=RunKind.CELL, source="pass", name="usual"),
        ask_measurement,
    ],
    ids=["start", "size", "run", "run_that_says_nothing", "measurement"],
)
def test_what_would_be_too_large_is_refused_before_anything_starts(store, home, ask) -> None:
    with pytest.raises(StateError, match=RULE):
        ask(store)

    assert (store.clusters(), store.runs()) == ([], [])
    assert not has_started(home)


def test_clusters_are_counted_together_until_one_is_deleted(store, home, monkeypatch) -> None:
    monkeypatch.setattr(requests_cluster, "wake_supervisor", lambda cluster: None)
    ask_cluster(store, 1, cluster="one")
    ask_cluster(store, 1, cluster="two")
    with pytest.raises(StateError, match="and one and two would come to 3 ranks; ask for less, or"):
        ask_size(store, Size(2), cluster="two")

    ask_down(store, cluster="one")

    assert ask_size(store, Size(2), cluster="two").ranks == 2


def test_a_resumed_run_does_not_grow_its_cluster_past_a_limit(store, home, awake) -> None:
    save(store, stopped(store, ranks=1))
    before = store.cluster_wish("default")

    with pytest.raises(StateError, match=RULE):
        ask_resume(store, "fit", {"ranks": 4})

    assert store.cluster_wish("default") == before
    assert store.run("fit").fact.attempt == 1


def test_nodes_that_cost_too_much_are_not_asked_a_price_for(store, home) -> None:
    store.wish_cluster("default", up=True, ranks=0, fleet=RENTED)

    with pytest.raises(StateError, match="allow ann 2 ranks, and default would come to 3 ranks"):
        ask_size(store, Size(nodes=3), market=unasked)


def test_money_spent_on_deleted_clusters_counts_but_not_a_rehearsal(store, home, awake) -> None:
    for name, paid in (("one", True), ("two", False)):
        store.fleets.account(name, 1, 0.0)
        store.fleets.put_nodes(name, [Node("i-1", NodeState.GONE, spent=4.0)])
        store.fleets.settle(name, paid=paid)

    with pytest.raises(StateError, match=r"\$8.00 in all, \$4.00 of them spent, .* to \$9.00"):
        ask_cluster(store, 0, fleet=RENTED)

    assert store.clusters() == []


def test_a_file_that_cannot_be_read_allows_nothing(store, home, limits) -> None:
    limits.unlink()

    with pytest.raises(MachineError, match=r"limits.toml \(WORKBENCH_LIMITS\) cannot be read"):
        ask_cluster(store, 1)

    assert store.clusters() == []
