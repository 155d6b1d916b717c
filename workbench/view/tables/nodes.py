"""A cluster's nodes, the attempts to get them, and their costs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from workbench.core.cluster.model import ClusterWish
from workbench.core.fleet.cost import FleetCost, bill
from workbench.core.fleet.fallbacks import candidate_of
from workbench.core.fleet.model import Node, NodeState
from workbench.core.fleet.purchases import PurchaseOutcome, PurchaseRecord
from workbench.core.units import count
from workbench.pages.protocol import FleetMessage, NodeMessage, PurchaseMessage
from workbench.requests.cluster import is_released
from workbench.store import Store
from workbench.view.state_line import notice
from workbench.view.tables.listing import Table
from workbench.view.text import NOTHING, dollars, duration, hourly, moment

# Providers whose nodes cost money, really or simulated.
TRAFFIC_SAID = 0.005  # $; below this, traffic is not shown
MOST_NODES = 64  # maximum number of nodes listed one by one
_RECORD = {state: place for place, state in enumerate(NodeState)}
OUTCOMES = {
    PurchaseOutcome.WRITTEN: "being tried",
    PurchaseOutcome.BOUGHT: "granted",
    PurchaseOutcome.REFUSED: "refused",
    PurchaseOutcome.LOST: "no nodes obtained",
}


@dataclass(frozen=True)
class FleetNodes:
    """The nodes of one cluster, and their costs.

    Args:
        asked: The desired number of nodes.
        nodes: All that are not gone, the head first, then by progress.
        bill: None if the nodes cost nothing.
        purchases: The purchases tried in the current search for nodes.
        now: Epoch seconds of all this.
    """

    wish: ClusterWish
    asked: int
    nodes: tuple[Node, ...]
    bill: FleetCost | None
    purchases: tuple[PurchaseRecord, ...] = ()
    now: float = 0.0

    @property
    def joined(self) -> int:
        """The number of nodes with ranks."""
        return sum(node.state is NodeState.JOINED for node in self.nodes)


def fleet_of(store: Store, wish: ClusterWish, ranks: int, now: float) -> FleetNodes:
    """Return the nodes of a cluster at ``now``.

    Args:
        ranks: The cluster's ranks; they show whether this machine is a node.
    """
    fleet = wish.fleet
    is_resting = is_released(wish, store.cluster_fact(wish.name))
    asked = fleet.nodes if wish.up and not is_resting else 0
    if not fleet.place.has_nodes:
        here = Node("localhost", NodeState.JOINED, "localhost", ranks, head=True)
        return FleetNodes(wish, asked, (here,) if ranks else (), None)
    every = store.fleets.nodes(wish.name, gone=True)
    there = [node for node in every if node.state is not NodeState.GONE]
    paid = bill(every, fleet.budget)
    found = FleetNodes(
        wish,
        asked,
        tuple(sorted(there, key=lambda node: (not node.head, -_RECORD[node.state], node.id))),
        paid if fleet.place.is_charged else None,
    )
    purchases = store.fleets.purchases(wish.name) if found.joined < asked else []
    pass_number = max((record.pass_number for record in purchases), default=0)
    last = tuple(record for record in purchases if record.pass_number == pass_number)
    return FleetNodes(wish, asked, found.nodes, found.bill, last, now)


def fleet_message(fleet: FleetNodes) -> FleetMessage:
    """Return nodes, costs and purchases as a message to a page."""
    wish, paid = fleet.wish.fleet, fleet.bill
    is_local = not wish.place.has_nodes
    return FleetMessage(
        provider=wish.provider,
        provider_label=wish.place.label,
        has_nodes=wish.place.has_nodes,
        lists_hosts=wish.place.lists_hosts,
        nodes_asked=fleet.asked,
        nodes_actual=fleet.joined,
        nodes_defined=wish.nodes,
        min_nodes=wish.min_nodes,
        max_nodes=wish.max_nodes,
        unit=wish.place.unit,
        price=paid.price if paid else None,
        spent=paid.spent if paid else None,
        traffic=paid.traffic if paid else None,
        budget=wish.budget or None,
        expires=wish.expires or None,
        node_states={} if is_local else _states(fleet.nodes),
        nodes=()
        if is_local
        else tuple(_node(node, fleet.now) for node in fleet.nodes[:MOST_NODES]),
        purchases=tuple(
            PurchaseMessage(
                what=str(candidate_of(record.purchase)),
                outcome=record.outcome,
                message=record.message,
            )
            for record in fleet.purchases
        ),
    )


def nodes_table(nodes: Iterable[Node], now: float, unit: str = "") -> Table:
    """Return the nodes with their states and costs, at ``now``."""
    rows = tuple(
        (
            f"{node.id}{' (head)' if node.head else ''}",
            node.address or NOTHING,
            "failed" if node.failed else str(node.state),
            " in ".join(filter(None, (node.type, node.zone))) or NOTHING,
            str(node.slots or NOTHING),
            hourly(node.price, unit) if node.price else NOTHING,
            dollars(node.spent, unit) if node.launched else NOTHING,
            _find_message(node, now),
        )
        for node in nodes
    )
    headers = ("node", "address", "state", "type", "slots", "price", "spent", "message")
    return Table(headers, rows)


def purchases_table(purchases: Sequence[PurchaseRecord]) -> Table:
    """Return the table of purchases, in the order in which they were tried."""
    rows = tuple(
        (str(number), str(candidate_of(record.purchase)), OUTCOMES[record.outcome], record.message)
        for number, record in enumerate(purchases, 1)
    )
    return Table(("", "tried", "outcome", "why"), rows)


def nodes_line(fleet: FleetNodes) -> str:
    """Return the actual and desired number of nodes, and the nodes' states."""
    wish = fleet.wish.fleet
    grows = fleet.asked and wish.max_nodes  # automatically, while runs are queued
    least = f"{min(wish.min_nodes, fleet.asked)} to " if grows else ""
    said = f"{fleet.joined} of {least}{count(wish.max_nodes if grows else fleet.asked, 'node')}"
    states = _states(node for node in fleet.nodes if node.state is not NodeState.JOINED)
    others = ", ".join(f"{number} {state}" for state, number in states.items())
    return f"{said} ({others})" if others else said


def money_line(fleet: FleetNodes, now: float) -> str:
    """Return the present price, money spent and left, and the time to live, at ``now``."""
    wish, paid = fleet.wish.fleet, fleet.bill
    if paid is None:
        parts = ["free"]
    else:
        unit = wish.place.unit
        parts = [
            f"{hourly(paid.price, unit)} now",
            f"{dollars(paid.spent, unit)} spent{_traffic_remark(paid)}",
        ]
        if paid.left is not None:
            parts.append(f"{dollars(paid.left, unit)} of {dollars(wish.budget, unit)} left")
    return ", ".join([*parts, time_to_live(wish.expires, now)])


def _traffic_remark(paid: FleetCost) -> str:
    if paid.traffic < TRAFFIC_SAID:
        return ""
    return f" (of which about {dollars(paid.traffic)} for traffic, estimated)"


def time_to_live(expires: float, now: float) -> str:
    """Return a cluster's remaining time to live in words."""
    if not expires:
        return "never expires"
    if expires <= now:
        return f"expired at {moment(expires)}"
    return f"{duration(expires - now)} to live"


def _states(nodes: Iterable[Node]) -> dict[str, int]:
    found = Counter("failed" if node.failed else str(node.state) for node in nodes)
    return dict(sorted(found.items()))


def _find_message(node: Node, now: float) -> str:
    """Return the message of a node; with an interruption notice, the time that is left."""
    return notice(node, now) or node.message


def _node(node: Node, now: float) -> NodeMessage:
    return NodeMessage(
        id=node.id,
        address=node.address,
        type=node.type,
        zone=node.zone,
        state=node.state,
        failed=node.failed,
        since=node.since,
        slots=node.slots,
        price=node.price,
        spent=node.spent,
        traffic=node.traffic,
        head=node.head,
        message=node.message,
        notice=notice(node, now),
    )
