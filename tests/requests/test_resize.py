"""An invalid size is one error sentence, before anything is started."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from tests.requests.conftest import has_started
from workbench.core.cluster.model import ClusterFact, ClusterState, ResizeAt
from workbench.core.cluster.size import Size
from workbench.core.fleet.model import FleetWish, Needs, Node, NodeState, Offer
from workbench.core.node.findings import Finding
from workbench.core.run.model import RunKind, RunState, RunWish
from workbench.core.world.world import Host
from workbench.errors import CloudError, InputError, PriceQuestion, StateError, WorkbenchError
from workbench.requests import cluster as requests_cluster
from workbench.requests.cloud_queries import CloudMarket
from workbench.requests.cluster import ask_size
from workbench.store import Store

HERE = FleetWish()
THREE = tuple(Host(f"10.0.0.{number}", 2) for number in (4, 5, 6))
HOSTS = FleetWish("hosts", nodes=2, hosts=THREE)
RENTED = FleetWish("ec2", nodes=2, needs=Needs(vcpus=2), region="us-east-1")
REHEARSED = replace(RENTED, provider="rehearsal")
OFFER = Offer("c5.large", "us-east-1a", 0.04, 2, 4.0)


@pytest.fixture(autouse=True)
def slots(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let this machine carry four ranks."""
    monkeypatch.setattr(requests_cluster, "local_slots", lambda: 4)


@pytest.fixture
def woken(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Collect the clusters whose supervisor is woken, in place of starting one."""
    found: list[str] = []
    monkeypatch.setattr(requests_cluster, "wake_supervisor", found.append)
    return found


def up(store: Store, fleet: FleetWish, ranks: int = 2) -> None:
    store.wish_cluster("default", up=True, ranks=ranks, fleet=fleet)


def unasked(_: FleetWish) -> CloudMarket:
    raise AssertionError("the provider was asked for a price")


def offering(*offers: Offer) -> Callable[[FleetWish], CloudMarket]:
    return lambda _: CloudMarket("us-east-1", offers)


def test_more_nodes_of_a_queue_are_asked_about_with_their_start(store, woken, monkeypatch) -> None:
    up(store, FleetWish("slurm", nodes=1))
    offers = offering(Offer("main", "", 4.0, 8, 16.0, placement=False))
    answers = [Finding("job", True, "Slurm would start the job now.")]
    monkeypatch.setattr(requests_cluster, "ask_permissions", lambda *_: answers)

    with pytest.raises(PriceQuestion) as question:
        ask_size(store, Size(nodes=2), market=offers)
    asked = list(woken)
    ask_size(store, Size(nodes=2), market=offers, agreed=question.value.price)
    answers[0] = Finding("job", False, "Slurm refuses the job (too many)", "Ask for fewer.")
    with pytest.raises(CloudError, match=r"Slurm refuses the job \(too many\)"):
        ask_size(store, Size(nodes=3), market=offers)

    assert "2 nodes would cost about 8 core-hours/h" in str(question.value)
    assert str(question.value).endswith("Slurm would start the job now.")
    assert (asked, woken) == ([], ["default"])
    assert store.cluster_wish("default").fleet.nodes == 2


@pytest.mark.parametrize(
    ("size", "sentence"),
    [
        ({}, "Give one size: a number of ranks or a number of nodes."),
        ({"ranks": 2, "nodes": 2}, "Give one size: a number of ranks or a number of nodes."),
        ({"ranks": 0}, "The number of ranks must be at least 1, not 0; `workbench delete` deletes"),
        ({"ranks": -3}, "The number of ranks must be at least 1, not -3; `workbench delete`"),
        ({"ranks": 10**6}, "1000000 ranks are too many; ask for at most 4096"),
        ({"nodes": -1}, "The number of nodes must be from 0 to 512, not -1; 0 releases all"),
        ({"nodes": 513}, "The number of nodes must be from 0 to 512, not 513; 0 releases all"),
    ],
)
def test_what_no_cluster_can_have_is_no_size(size, sentence) -> None:
    with pytest.raises(InputError) as refusal:
        Size(**size)

    assert str(refusal.value).startswith(sentence)


@pytest.mark.parametrize(
    ("fleet", "size", "sentence"),
    [
        (
            HERE,
            Size(ranks=5),
            "5 ranks were asked for, but this machine has 4 slots; ask for at most 4, or let "
            "ranks share cores (--oversubscribe).",
        ),
        (
            HERE,
            Size(nodes=2),
            "Cluster 'default' runs on this machine alone; change its number of ranks instead.",
        ),
        (
            HOSTS,
            Size(ranks=5),
            "5 ranks were asked for, but these 2 hosts have 4 slots; ask for at most 4, or let "
            "ranks share cores (--oversubscribe).",
        ),
        (
            HOSTS,
            Size(nodes=4),
            "4 nodes were requested, but cluster 'default' has 3 hosts; request fewer, or name "
            "more hosts with `workbench up --hosts`.",
        ),
        *(
            (
                replace(fleet, max_nodes=4),
                Size(nodes=5),
                "5 nodes are more than the maximum of 4; request fewer, or raise the maximum with "
                "`workbench up --max-nodes`.",
            )
            for fleet in (RENTED, REHEARSED)
        ),
        (
            replace(HOSTS, max_nodes=2),
            Size(nodes=3),
            "3 nodes are more than the maximum of 2; request fewer, or raise the maximum with "
            "`workbench up --max-nodes`.",
        ),
    ],
)
def test_a_size_that_the_cluster_cannot_have_starts_nothing(
    store, home, fleet, size, sentence
) -> None:
    up(store, fleet)
    before = store.cluster_wish("default")

    with pytest.raises(InputError) as refusal:
        ask_size(store, size, market=unasked)

    assert str(refusal.value) == sentence
    assert store.cluster_wish("default") == before
    assert not has_started(home)


@pytest.mark.parametrize(
    ("size", "sentence"),
    [
        (Size(nodes=2), "There is no cluster 'default'; start it first."),
        (Size(ranks=5), "5 ranks were asked for, but this machine has 4 slots; ask for at most 4"),
    ],
)
def test_without_a_cluster_a_bad_size_creates_none(store, home, size, sentence) -> None:
    with pytest.raises(WorkbenchError) as refusal:
        ask_size(store, size, market=unasked)

    assert str(refusal.value).startswith(sentence)
    assert store.clusters() == []
    assert not has_started(home)


@pytest.mark.parametrize("fleet", [HOSTS, RENTED, REHEARSED])
def test_nodes_of_a_deleted_cluster_are_not_started_by_a_resize(store, home, fleet) -> None:
    store.wish_cluster("default", up=False, ranks=0, fleet=fleet)

    with pytest.raises(StateError, match="'default' is deleted; start a new one"):
        ask_size(store, Size(nodes=1), market=unasked)

    assert not store.cluster_wish("default").up
    assert not has_started(home)


@pytest.mark.parametrize("size", [Size(nodes=1), Size(ranks=1)])
@pytest.mark.parametrize("fleet", [HOSTS, RENTED, REHEARSED])
def test_a_cluster_whose_time_to_live_is_over_is_not_resized(store, home, fleet, size) -> None:
    up(store, replace(fleet, expires=1.0))

    with pytest.raises(StateError, match="The time to live of cluster 'default' is over"):
        ask_size(store, size, market=unasked)

    assert store.cluster_wish("default").fleet.nodes == 2
    assert not has_started(home)


@pytest.mark.parametrize(
    ("fleet", "size", "ranks", "nodes"),
    [
        (HERE, Size(ranks=4), 4, 1),
        (HOSTS, Size(ranks=3), 3, 2),
        (HOSTS, Size(nodes=3), 6, 3),
        (HOSTS, Size(nodes=0), 0, 0),
        (RENTED, Size(ranks=1), 1, 2),
        (RENTED, Size(nodes=1), 0, 1),
        (RENTED, Size(nodes=0), 0, 0),
        (REHEARSED, Size(nodes=5), 0, 5),
    ],
)
def test_a_size_that_costs_no_more_is_requested_at_once(
    store, woken, fleet, size, ranks, nodes
) -> None:
    up(store, fleet)

    wish = ask_size(store, size, market=unasked)

    assert (wish.up, wish.ranks, wish.fleet.nodes) == (True, ranks, nodes)
    assert store.cluster_wish("default") == wish
    assert woken == ["default"]


def test_the_minimum_follows_a_smaller_number_of_nodes(store, woken) -> None:
    up(store, replace(HOSTS, min_nodes=2))

    assert ask_size(store, Size(nodes=1)).fleet.min_nodes == 1


def test_more_ranks_than_slots_may_share_cores(store, woken) -> None:
    up(store, HERE)

    wish = ask_size(store, Size(ranks=5), oversubscribe=True)

    assert (wish.ranks, wish.oversubscribe) == (5, True)


def test_the_same_size_is_no_new_request(store, woken) -> None:
    up(store, HERE)

    assert ask_size(store, Size(ranks=2)).revision == 1


def test_the_time_of_a_move_is_changed_by_the_same_size(store, woken) -> None:
    up(store, HERE)
    first = ask_size(store, Size(ranks=2), at=ResizeAt.END)
    second = ask_size(store, Size(ranks=2), at=ResizeAt.END)

    assert (first.resize_at, second.revision) == (ResizeAt.END, first.revision)
    assert ask_size(store, Size(ranks=2)).resize_at is ResizeAt.STEP


def test_the_epoch_of_a_run_without_epochs_is_not_waited_for(store, woken) -> None:
    up(store, HERE)
    run = store.wish_run(RunWish("261121-003229-aaaa", "digits", RunKind.CELL, "")).id
    store.put_run_fact(run, state=RunState.RUNNING, iteration=7)

    with pytest.raises(InputError, match="Run 'digits' reports no epochs"):
        ask_size(store, Size(ranks=1), at=ResizeAt.EPOCH)
    assert (store.cluster_wish("default").ranks, woken) == (2, [])


def test_the_same_size_lets_a_failed_cluster_try_again(store, woken) -> None:
    up(store, HERE)
    store.put_cluster_fact(ClusterFact("default", ClusterState.FAILED))

    assert ask_size(store, Size(ranks=2)).revision == 2


def test_more_rented_nodes_start_once_their_price_is_confirmed(store, woken) -> None:
    up(store, RENTED)
    nodes = [Node(f"i-{n}", NodeState.JOINED, type="c5.large", zone="us-east-1a") for n in (1, 2)]
    store.fleets.put_nodes("default", nodes)

    with pytest.raises(PriceQuestion) as question:
        ask_size(store, Size(nodes=3), market=offering(OFFER))
    assert store.cluster_wish("default").fleet.nodes == 2
    assert woken == []
    wish = ask_size(store, Size(nodes=3), agreed=question.value.price, market=offering(OFFER))

    assert wish.fleet.nodes == 3
    assert woken == ["default"]


def test_rented_nodes_above_the_max_price_are_refused_though_confirmed(store, home) -> None:
    up(store, replace(RENTED, max_price=0.05))

    with pytest.raises(
        StateError, match=r"more than the max price of \$0\.05/h; request fewer, or raise"
    ):
        ask_size(store, Size(nodes=3), agreed=100.0, market=offering(OFFER))

    assert store.cluster_wish("default").fleet.nodes == 2
    assert not has_started(home)
