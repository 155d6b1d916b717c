"""Nodes, purchases and money are said in the same words everywhere."""

from __future__ import annotations

import json

import msgspec
import pytest

from workbench.core.cluster.model import ClusterWish
from workbench.core.fleet.model import FleetWish, Node, NodeState, Purchase
from workbench.core.fleet.purchases import PurchaseOutcome, PurchaseRecord
from workbench.core.run.model import RunState
from workbench.pages.messages import cluster_message
from workbench.view.run_record import RunRecord
from workbench.view.state_line import notices
from workbench.view.tables.nodes import (
    MOST_NODES,
    fleet_of,
    money_line,
    nodes_line,
    nodes_table,
    purchases_table,
    time_to_live,
)

SPOT = FleetWish("rehearsal", nodes=3, min_nodes=2, budget=2.0, expires=7200.0)


@pytest.fixture
def spot(store) -> ClusterWish:
    return store.wish_cluster("default", up=True, ranks=0, fleet=SPOT)


def a_node(id_: str, state: NodeState = NodeState.JOINED, **changes) -> Node:
    given = {"address": "10.0.0.1", "type": "g4dn.xlarge", "zone": "us-east-1a", "slots": 1}
    return Node(id_, state, **{**given, "price": 0.2, "spent": 0.05, "launched": 1.0, **changes})


def a_record(
    number: int, outcome: PurchaseOutcome, pass_number: int = 1, message: str = ""
) -> PurchaseRecord:
    purchase = Purchase(
        "default", f"{pass_number}{number}", number, 3, 3, ("g4dn.xlarge",), "us-east-1a"
    )
    return PurchaseRecord(purchase, pass_number, 1.0, outcome, message=message)


def test_what_is_gone_is_paid_for_but_no_longer_a_node(store, spot):
    store.fleets.put_nodes("default", [a_node("i-1"), a_node("i-2", NodeState.GONE, ended=2.0)])

    message = cluster_message(store, "default", 3600.0)

    assert json.dumps(msgspec.to_builtins(message), allow_nan=False)
    assert [node.id for node in message.nodes] == ["i-1"]
    assert (message.spent, message.price) == (pytest.approx(0.1), 0.2)
    assert (message.provider, message.budget, message.expires) == (
        "rehearsal",
        2.0,
        7200.0,
    )


def test_a_persons_own_hosts_cost_nothing(store):
    store.wish_cluster("default", up=True, ranks=0, fleet=FleetWish("hosts"))

    message = cluster_message(store, "default", 1.0)

    assert (message.provider, message.price, message.spent) == ("hosts", None, None)
    assert message.traffic is None


def test_a_cluster_that_is_down_asks_for_no_nodes(store):
    store.wish_cluster("default", up=False, ranks=0, fleet=SPOT)

    assert cluster_message(store, "default", 1.0).nodes_asked == 0


def test_only_the_ascent_that_is_under_way_is_reported(store, spot):
    for record in (
        a_record(0, PurchaseOutcome.BOUGHT),
        a_record(0, PurchaseOutcome.REFUSED, 2, "No capacity."),
        a_record(1, PurchaseOutcome.WRITTEN, 2),
    ):
        store.fleets.put_purchase(record)

    fleet = fleet_of(store, spot, 0, 1.0)

    assert purchases_table(fleet.purchases).rows == (
        ("1", "3 nodes of g4dn.xlarge in us-east-1a", "refused", "No capacity."),
        ("2", "3 nodes of g4dn.xlarge in us-east-1a", "being tried", ""),
    )
    assert [number.outcome for number in cluster_message(store, "default", 1.0).purchases] == [
        "refused",
        "written",
    ]


def test_purchases_are_no_news_once_all_nodes_are_there(store, spot):
    store.fleets.put_purchase(a_record(0, PurchaseOutcome.BOUGHT))
    store.fleets.put_nodes("default", [a_node(f"i-{number}") for number in range(3)])

    assert cluster_message(store, "default", 1.0).purchases == ()


def test_the_head_is_first_then_the_furthest(store, spot):
    nodes = [
        a_node("i-1", NodeState.BOOTING),
        a_node("i-2", NodeState.JOINED),
        a_node("i-3", NodeState.VERIFIED, head=True, address="", launched=0.0, message="Wait"),
    ]
    store.fleets.put_nodes("default", nodes)

    fleet = fleet_of(store, spot, 0, 1.0)

    assert nodes_line(fleet) == "1 of 3 nodes (1 booting, 1 verified)"
    assert nodes_table(fleet.nodes, 1.0).rows == (
        ("i-3 (head)", "–", "verified", "g4dn.xlarge in us-east-1a", "1", "$0.20/h", "–", "Wait"),
        ("i-2", "10.0.0.1", "joined", "g4dn.xlarge in us-east-1a", "1", "$0.20/h", "$0.05", ""),
        ("i-1", "10.0.0.1", "booting", "g4dn.xlarge in us-east-1a", "1", "$0.20/h", "$0.05", ""),
    )  # fmt: skip


def test_money_is_said_with_what_is_left_of_it_and_of_time(store, spot):
    store.fleets.put_nodes("default", [a_node("i-1"), a_node("i-2")])

    fleet = fleet_of(store, spot, 0, 3600.0)

    assert money_line(fleet, 3600.0) == (
        "$0.40/h now, $0.10 spent, $1.90 of $2.00 left, 1 h to live"
    )


def test_where_core_hours_are_charged_they_take_the_place_of_money(store):
    wished = FleetWish("slurm", nodes=1, budget=200.0)
    wish = store.wish_cluster("default", up=True, ranks=0, fleet=wished)
    store.fleets.put_nodes("default", [a_node("7.0", price=16.0, spent=4.0)])

    fleet, message = fleet_of(store, wish, 0, 3600.0), cluster_message(store, "default", 3600.0)

    assert money_line(fleet, 3600.0) == (
        "16 core-hours/h now, 4 core-hours spent, 196 core-hours of 200 core-hours left, "
        "never expires"
    )
    assert (message.unit, message.price) == ("core-hours", 16.0)
    assert {"16 core-hours/h", "4 core-hours"} <= {
        *nodes_table(fleet.nodes, 1.0, "core-hours").rows[0]
    }


def test_what_was_spent_on_traffic_is_said_as_a_part_of_it(store, spot):
    store.fleets.put_nodes("default", [a_node("i-1", traffic=0.02), a_node("i-2")])

    fleet, message = fleet_of(store, spot, 0, 3600.0), cluster_message(store, "default", 3600.0)

    assert money_line(fleet, 3600.0) == (
        "$0.40/h now, $0.10 spent (of which about $0.02 for traffic, estimated), "
        "$1.90 of $2.00 left, 1 h to live"
    )
    assert (message.spent, message.traffic) == (pytest.approx(0.1), 0.02)
    assert [node.traffic for node in message.nodes] == [0.02, 0.0]


def test_traffic_that_costs_less_than_a_cent_is_not_said(store, spot):
    store.fleets.put_nodes("default", [a_node("i-1", traffic=0.004)])

    assert "traffic" not in money_line(fleet_of(store, spot, 0, 3600.0), 3600.0)


@pytest.mark.parametrize(
    ("expires", "said"),
    [(0.0, "never expires"), (160.0, "1 min to live"), (99.0, "expired at")],
)
def test_a_time_to_live_is_said(expires, said):
    assert time_to_live(expires, 100.0).startswith(said)


def test_of_a_large_fleet_not_every_node_is_reported(store, spot):
    store.fleets.put_nodes("default", [a_node(f"i-{number}") for number in range(MOST_NODES + 10)])

    message = cluster_message(store, "default", 1.0)

    assert len(message.nodes) == MOST_NODES
    assert message.node_states == {"joined": MOST_NODES + 10}


def test_a_notice_counts_down_wherever_the_node_is_shown(store, spot):
    leaving = a_node("i-3", NodeState.LEAVING, reclaimed=1118.0, message="taken back")
    store.fleets.put_nodes("default", [leaving, a_node("i-4", NodeState.GONE, reclaimed=1118.0)])

    fleet, message = fleet_of(store, spot, 0, 1000.0), cluster_message(store, "default", 1000.0)

    text = "node i-3 will be reclaimed in 1 min 58 s"
    assert [*notices(store.fleets.reclaimed_nodes("default"), 1000.0)] == [text]
    assert nodes_table(fleet.nodes, 1000.0).rows[0][-1] == text
    assert message.nodes[0].notice == text
    late = notices(store.fleets.reclaimed_nodes("default"), 1118.0)
    assert [*late] == ["node i-3 is being reclaimed"]


def test_the_line_of_a_run_has_the_notice_until_it_ends(store, supervisor, spot, queue):
    run = queue("digits")
    store.fleets.put_nodes("default", [a_node("i-3", NodeState.LEAVING, reclaimed=1118.0)])
    supervisor.put_run_fact(run.id, state=RunState.RUNNING, iteration=7)
    record = RunRecord(run)
    record.look(store)
    during = record.line(1100.0)
    supervisor.put_run_fact(run.id, state=RunState.FINISHED)
    record.look(store)

    assert during == "running · iteration 7 · node i-3 will be reclaimed in 18 s"
    assert "reclaimed" not in record.line(1100.0)
