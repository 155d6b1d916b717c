"""Nodes, purchases and costs are read as they were written, and no cost is counted twice."""

from __future__ import annotations

from dataclasses import replace

import pytest

from workbench.core.cluster.model import ClusterWish
from workbench.core.fleet.model import FleetWish, Needs, Node, NodeState, Purchase
from workbench.core.fleet.purchases import PurchaseOutcome, PurchaseRecord
from workbench.core.run.model import RunKind, RunWish
from workbench.core.world.world import Host, World
from workbench.store.fleet import Account

FLEET = FleetWish(
    "ec2",
    nodes=3,
    min_nodes=2,
    max_nodes=4,
    hosts=(Host("172.31.41.13", 1, "me", 22), Host("other", 2)),
    needs=Needs(gpus=1, network=1.5, types=("a", "b"), zones=("z",)),
    region="eu-west-1",
    max_price=1.25,
    budget=10.0,
    expires=99.5,
    prepare="true",
)
NODE = Node(
    "i-1", NodeState.READY, "10.0.0.4", 2, "a", "z", 0.25, 0.5, 10.0, 0.0, True, "Well.", 9.0
)
PURCHASE = Purchase("lab", "token", 1, 3, 2, ("a", "b"), "z", True, 0.5)
ORDER = PurchaseRecord(PURCHASE, 1, 5.0)


# -- the wish


def test_a_cluster_is_on_this_machine_unless_nodes_were_asked_for(store) -> None:
    wish = store.wish_cluster("lab", up=True, ranks=2)

    assert wish.fleet == FleetWish()


def test_a_fleet_comes_back_as_it_was_asked_for(store) -> None:
    wish = store.wish_cluster("lab", up=True, ranks=2, fleet=FLEET)

    assert wish == store.cluster_wish("lab") == ClusterWish("lab", True, 2, False, 1, FLEET)


def test_a_wish_that_names_no_fleet_keeps_the_present_one(store, wish) -> None:
    store.wish_cluster("lab", up=True, ranks=2, fleet=FLEET)

    down = store.wish_cluster("lab", up=False, ranks=2)
    store.wish_run(wish(cluster="lab"), World((), 4))

    assert down.fleet == FLEET
    assert store.cluster_wish("lab") == ClusterWish("lab", True, 4, False, 3, FLEET)


def test_a_run_that_begins_a_cluster_begins_it_on_this_machine(store) -> None:
    store.wish_run(RunWish("run", "run", RunKind.CELL, "pass", "lab"), World((), 2))

    assert store.cluster_wish("lab").fleet == FleetWish()


# -- nodes


def test_a_node_comes_back_as_it_was(store) -> None:
    store.fleets.put_nodes("lab", [replace(NODE, state=NodeState.ASKED, head=False)])
    store.fleets.put_nodes("lab", [NODE])
    store.fleets.put_nodes("other", [replace(NODE, id="i-2")])

    assert store.fleets.nodes("lab") == [NODE]


def test_nodes_that_are_gone_are_left_out_unless_asked_for(store) -> None:
    gone = replace(NODE, id="i-0", state=NodeState.GONE)
    store.fleets.put_nodes("lab", [NODE, gone])

    assert store.fleets.nodes("lab") == [NODE]
    assert store.fleets.nodes("lab", gone=True) == [gone, NODE]


# -- money


def test_prices_come_back_by_node_and_time_and_the_first_one_is_kept(store) -> None:
    store.fleets.put_prices("lab", [("i-2", 7.0, 0.3), ("i-1", 5.0, 0.2), ("i-1", 3.0, 0.1)])
    store.fleets.put_prices("lab", [("i-1", 5.0, 0.9)])

    assert store.fleets.prices("lab") == {"i-1": ((3.0, 0.1), (5.0, 0.2)), "i-2": ((7.0, 0.3),)}
    assert store.fleets.prices("other") == {}


def test_what_was_spent_includes_nodes_that_are_gone(store) -> None:
    store.fleets.put_nodes("lab", [NODE, replace(NODE, id="i-0", state=NodeState.GONE, spent=1.0)])
    store.fleets.put_nodes("lab", [replace(NODE, spent=0.75)])

    assert store.fleets.spent("lab") == 1.75
    assert store.fleets.spent("other") == 0.0


def test_an_account_remembers_when_it_was_founded_and_last_asked_for(store) -> None:
    accounts = [
        store.fleets.account("lab", revision, now) for revision, now in ((1, 5.0), (1, 6.0))
    ]

    assert accounts == [Account(5.0, 5.0, 0.0)] * 2
    assert store.fleets.account("lab", 2, 7.0) == Account(5.0, 7.0, 0.0)
    assert store.fleets.account("lab", 2, 8.0) == Account(5.0, 7.0, 0.0)


def test_a_settled_account_is_kept_and_the_next_life_starts_at_nothing(store) -> None:
    store.fleets.put_nodes("other", [NODE])
    for revision in (1, 2):
        store.fleets.account("lab", revision, 5.0 * revision)
        store.fleets.put_nodes("lab", [replace(NODE, state=NodeState.GONE)])
        store.fleets.put_prices("lab", [("i-1", 5.0, 0.2)])
        store.fleets.put_purchase(ORDER)
        store.fleets.settle("lab")

    assert store.fleets.account("lab", 2, 20.0) == Account(20.0, 20.0, 1.0)
    assert store.fleets.spent("lab") == 0.0
    assert store.fleets.nodes("lab", gone=True) == store.fleets.purchases("lab") == []
    assert store.fleets.prices("lab") == {}
    assert store.fleets.nodes("other") == [NODE]


def test_settling_twice_adds_nothing(store) -> None:
    store.fleets.account("lab", 1, 5.0)
    store.fleets.put_nodes("lab", [replace(NODE, state=NodeState.GONE)])

    store.fleets.settle("lab")
    store.fleets.settle("lab")

    assert store.fleets.account("lab", 1, 6.0).spent_before == 0.5


# -- purchases


def test_an_order_comes_back_as_it_was_written(store) -> None:
    store.fleets.put_purchase(ORDER)

    assert store.fleets.purchases("lab") == [ORDER]


def test_an_answer_changes_what_came_of_it_and_not_what_was_bought(store) -> None:
    store.fleets.put_purchase(ORDER)

    store.fleets.put_purchase(
        PurchaseRecord(
            replace(PURCHASE, count=9), 2, 9.0, PurchaseOutcome.REFUSED, 3, "capacity", "None left."
        )
    )

    assert store.fleets.purchases("lab") == [
        PurchaseRecord(PURCHASE, 2, 9.0, PurchaseOutcome.REFUSED, 3, "capacity", "None left.")
    ]


def test_what_a_purchase_sends_stays_as_it_was_first_written(store) -> None:
    assert store.fleets.read_sent("lab", "token") is None
    store.fleets.put_purchase(ORDER, "#cloud-config", [("workbench:expires", "9")])

    store.fleets.put_purchase(replace(ORDER, tries=2), "other", [])

    assert store.fleets.read_sent("lab", "token") == (
        "#cloud-config",
        (("workbench:expires", "9"),),
    )
    assert store.fleets.purchases("lab") == [replace(ORDER, tries=2)]


def test_orders_come_back_in_the_order_in_which_they_were_first_written(store) -> None:
    purchases = [PurchaseRecord(replace(PURCHASE, token=token), 1, 5.0) for token in "cab"]
    for record in purchases:
        store.fleets.put_purchase(record)

    store.fleets.put_purchase(replace(purchases[0], at=9.0))

    assert [record.purchase.token for record in store.fleets.purchases("lab")] == ["c", "a", "b"]


@pytest.mark.parametrize("method", ["nodes", "purchases", "prices", "spent"])
def test_a_cluster_that_never_was_has_nothing(store, method) -> None:
    assert not getattr(store.fleets, method)("lab")
