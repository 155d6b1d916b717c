"""Say what a cluster's nodes are, what was tried to get them, and what they cost."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from workbench.core.cluster import ClusterWish
from workbench.core.cost import Bill, bill
from workbench.core.fleet import Node, NodeState, Place
from workbench.core.ladder import rung_of
from workbench.core.orders import Order, Outcome
from workbench.store import Store
from workbench.view.listing import NOTHING, Table
from workbench.view.phrases import count, dollars, duration, hourly, moment

# On these a person pays for what a cluster takes, or would.
PRICED = frozenset({Place.EC2, Place.FAKE})
MOST_NODES = 64  # that are told one by one
PLACES = {
    Place.LOCAL: "this machine",
    Place.HOSTS: "ssh hosts",
    Place.EC2: "EC2 spot",
    Place.FAKE: "rehearsal (nothing is bought)",
}
_ORDER = {state: place for place, state in enumerate(NodeState)}
OUTCOMES = {
    Outcome.WRITTEN: "being tried",
    Outcome.BOUGHT: "granted",
    Outcome.REFUSED: "refused",
    Outcome.LOST: "nothing came of it",
}


@dataclass(frozen=True)
class Fleet:
    """The nodes of one cluster, and what they cost.

    Args:
        asked: How many nodes are wanted now.
        nodes: Those that are not gone, the head first, then those that are furthest.
        bill: None where nothing is paid.
        orders: What the ascent of the ladder tried that is under way.
    """

    wish: ClusterWish
    asked: int
    nodes: tuple[Node, ...]
    bill: Bill | None
    orders: tuple[Order, ...] = ()

    @property
    def joined(self) -> int:
        """How many nodes carry ranks."""
        return sum(node.state is NodeState.JOINED for node in self.nodes)


def fleet_of(store: Store, wish: ClusterWish, ranks: int, now: float) -> Fleet:
    """Return the nodes of a cluster as they are at ``now``.

    Args:
        ranks: That it has, by which this machine is told to be a node.
    """
    fleet = wish.fleet
    asked = fleet.nodes if wish.up else 0
    if fleet.place is Place.LOCAL:
        here = Node("localhost", NodeState.JOINED, "localhost", ranks, head=True)
        return Fleet(wish, asked, (here,) if ranks else (), None)
    every = store.nodes(wish.name, gone=True)
    there = [node for node in every if node.state is not NodeState.GONE]
    paid = bill(every, budget=fleet.budget, expires=fleet.expires, now=now)
    found = Fleet(
        wish,
        asked,
        tuple(sorted(there, key=lambda node: (not node.head, -_ORDER[node.state], node.id))),
        paid if fleet.place in PRICED else None,
    )
    orders = store.orders(wish.name) if found.joined < asked else []
    climb = max((order.climb for order in orders), default=0)
    last = tuple(order for order in orders if order.climb == climb)
    return Fleet(wish, asked, found.nodes, found.bill, last)


def fleet_message(fleet: Fleet) -> dict[str, Any]:
    """Return nodes, money and rungs in values that JSON can carry."""
    wish, paid = fleet.wish.fleet, fleet.bill
    is_local = wish.place is Place.LOCAL
    return {
        "where": str(wish.place),
        "nodes_asked": fleet.asked,
        "nodes_actual": fleet.joined,
        "nodes_defined": wish.nodes,
        "nodes_least": wish.least,
        "nodes_most": wish.most,
        "price": paid.price if paid else None,
        "spent": paid.spent if paid else None,
        "budget": wish.budget or None,
        "expires": wish.expires or None,
        "node_states": {} if is_local else _states(fleet.nodes),
        "nodes": [] if is_local else [_node(node) for node in fleet.nodes[:MOST_NODES]],
        "rungs": [_rung(order) for order in fleet.orders],
    }


def nodes_table(nodes: Iterable[Node]) -> Table:
    """Return the nodes with their states and costs."""
    rows = tuple(
        (
            f"{node.id}{' (head)' if node.head else ''}",
            node.address or NOTHING,
            "failed" if node.failed else str(node.state),
            " in ".join(filter(None, (node.type, node.zone))) or NOTHING,
            str(node.slots or NOTHING),
            hourly(node.price) if node.price else NOTHING,
            dollars(node.spent) if node.launched else NOTHING,
            node.message,
        )
        for node in nodes
    )
    headers = ("node", "address", "state", "type", "slots", "price", "spent", "message")
    return Table(headers, rows)


def rungs_table(orders: Sequence[Order]) -> Table:
    """Return what was tried to get nodes, in the order in which it was tried."""
    rows = tuple(
        (str(number), str(rung_of(order.purchase)), OUTCOMES[order.outcome], order.message)
        for number, order in enumerate(orders, 1)
    )
    return Table(("", "tried", "outcome", "why"), rows)


def nodes_line(fleet: Fleet) -> str:
    """Return how many nodes there are against how many were asked for, and how they stand."""
    wish = fleet.wish.fleet
    grows = fleet.asked and wish.most  # by itself, while runs wait
    least = f"{min(wish.least, fleet.asked)} to " if grows else ""
    said = f"{fleet.joined} of {least}{count(wish.most if grows else fleet.asked, 'node')}"
    states = _states(node for node in fleet.nodes if node.state is not NodeState.JOINED)
    others = ", ".join(f"{number} {state}" for state, number in states.items())
    return f"{said} ({others})" if others else said


def money_line(fleet: Fleet, now: float) -> str:
    """Return price now, money spent and left, and time to live; all of it at ``now``."""
    wish, paid = fleet.wish.fleet, fleet.bill
    if paid is None:
        parts = ["free"]
    else:
        parts = [f"{hourly(paid.price)} now", f"{dollars(paid.spent)} spent"]
        if paid.left is not None:
            parts.append(f"{dollars(paid.left)} of {dollars(wish.budget)} left")
    return ", ".join([*parts, lifetime(wish.expires, now)])


def lifetime(expires: float, now: float) -> str:
    """Return for how long a cluster lives unless somebody ends it before."""
    if not expires:
        return "no time limit"
    if expires <= now:
        return f"time to live is over since {moment(expires)}"
    return f"{duration(expires - now)} to live"


def _states(nodes: Iterable[Node]) -> dict[str, int]:
    found = Counter("failed" if node.failed else str(node.state) for node in nodes)
    return dict(sorted(found.items()))


def _node(node: Node) -> dict[str, Any]:
    names = ("id", "address", "type", "zone", "slots", "price", "spent", "head", "message")
    state = {"state": str(node.state), "failed": node.failed, "since": node.since}
    return {name: getattr(node, name) for name in names} | state


def _rung(order: Order) -> dict[str, Any]:
    return {
        "what": str(rung_of(order.purchase)),
        "outcome": str(order.outcome),
        "message": order.message,
    }
