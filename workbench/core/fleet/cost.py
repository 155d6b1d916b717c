"""Compute what nodes cost, to the second, as the provider bills it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from workbench.core.fleet.model import Node, NodeState, Offer
from workbench.core.units import dollars, hourly

ALL_BILLED = "all nodes, with disks and addresses"

HOUR = 3600.0
# EC2 bills a Linux machine by the second, but its whole first minute.
BILLED_AT_LEAST = 60.0
# How long a fleet still costs after the decision to end it: its runs stop and are saved, ...
RESERVE_SECONDS = 180.0
# ... and then, at the latest, the nodes are released: copies take at most a minute, and a machine
# of EC2 is billed until it shuts down.
RELEASE_SECONDS = 90.0
# A fleet whose budget lasts for less than this is not started.
WORTH_SECONDS = 600.0

Prices = tuple[tuple[float, float], ...]


@dataclass(frozen=True)
class FleetCost:
    """The cost of a fleet.

    Args:
        spent: $ so far, for all nodes that ever were.
        price: $/h now.
        left: $ that are left of the budget; None without a budget.
        traffic: $ of ``spent`` for traffic, estimated.
    """

    spent: float
    price: float
    left: float | None = None
    traffic: float = 0.0

    def __repr__(self) -> str:
        return f"<FleetCost {dollars(self.spent)}, {hourly(self.price)}>"


def update_prices(prices: Prices, price: float, now: float) -> Prices:
    """Return the price segments (start in epoch seconds, $/h), with the present price."""
    if prices and prices[-1][1] == price:
        return prices
    return (*(segment for segment in prices if segment[0] < now), (now, price))


def charge(prices: Sequence[tuple[float, float]], start: float, end: float) -> float:
    """Return the $ for one machine from ``start`` to ``end``, by price segments, oldest first.

    The first segment's price also counts before its start.
    """
    total = 0.0
    for index, (since, price) in enumerate(prices):
        begin = start if index == 0 else max(start, since)
        until = end if index + 1 == len(prices) else min(end, prices[index + 1][0])
        total += price * max(0.0, until - begin)
    return total / HOUR


def node_spent(
    prices: Sequence[tuple[float, float]],
    launched: float,
    until: float,
    *,
    interrupted: bool = False,
    credited: float = 0.0,
    extra_price: float = 0.0,
) -> float:
    """Return the $ for one node.

    Args:
        prices: Segments of its price.
        launched: 0 if it is not billed yet.
        until: Now, or when it ended; before ``launched`` if it never began.
        interrupted: Whether the provider interrupted it.
        credited: Such a node is free within its first so many seconds.
        extra_price: $/h of what is billed beside it and never refunded: its disk, its address.
    """
    if not launched or until < launched:
        return 0.0
    seconds = max(BILLED_AT_LEAST, until - launched)
    free = interrupted and until - launched < credited
    machine = 0.0 if free else charge(prices, launched, launched + seconds)
    return machine + extra_price * seconds / HOUR


def meter_node(
    node: Node,
    prices: Sequence[tuple[float, float]],
    now: float,
    *,
    interrupted: bool = False,
    credited: float = 0.0,
) -> Node:
    """Return the node with its present price and its cost so far; see ``node_spent``."""
    gone = node.state is NodeState.GONE
    until = node.ended if gone and node.ended else now
    extra_price = node.extra_price
    spent = node_spent(
        prices,
        node.launched,
        until,
        interrupted=interrupted,
        credited=credited,
        extra_price=extra_price,
    )
    spent += node.traffic
    price = 0.0 if gone or not prices else prices[-1][1] + extra_price
    return replace(node, spent=spent, price=price)


def with_traffic(node: Node, amount: float) -> Node:
    """Return the node with more $ for its traffic; they are never refunded."""
    return replace(node, traffic=node.traffic + amount, spent=node.spent + amount)


def bill(nodes: Iterable[Node], budget: float = 0.0) -> FleetCost:
    """Return the cost of all nodes."""
    nodes = tuple(nodes)
    spent = sum(node.spent for node in nodes)
    price = sum(node.price for node in nodes if node.state is not NodeState.GONE)
    left = max(0.0, budget - spent) if budget else None
    return FleetCost(spent, price, left, sum(node.traffic for node in nodes))


def is_used_up(spent: float, price: float, budget: float, seconds: float = RESERVE_SECONDS) -> bool:
    """Return whether everything must end now so that the budget is not exceeded.

    Args:
        price: $/h of everything that is still billed.
        seconds: How long it is still billed.
    """
    return bool(budget) and spent + price * seconds / HOUR >= budget


def budget_clause(budget: float, unit: str = "") -> str:
    """Return why nodes go whose budget is used up."""
    return f"the cluster's budget of {dollars(budget, unit)} is used up"


def is_worth_it(spent: float, price: float, budget: float) -> bool:
    """Return whether the budget lasts for a while at ``price``, the $/h of everything billed."""
    return not budget or spent + price * WORTH_SECONDS / HOUR <= budget


def ring_price(price: float, nbytes: float, seconds: float, ranks: int) -> float:
    """Return the $/h of an allreduce whose ring crosses from one zone to another and back.

    Each edge carries 2(p−1)/p of the gradients per step (Patarasuk & Yuan 2009), two edges cross,
    and each is billed to both its sender and its receiver.

    Args:
        price: $ per GB between two zones.
        nbytes: Size of the gradients.
        seconds: Duration of a step.
    """
    if ranks < 2 or seconds <= 0:
        return 0.0
    edge = 2 * (ranks - 1) / ranks * nbytes
    return 2 * edge / 1e9 * 2 * price * HOUR / seconds


def zones_price(price: float, training: float = 0.0) -> str:
    """Return the price of traffic between two zones, as part of a sentence.

    Args:
        price: $ per GB between two zones.
        training: Measured $/h of the training's traffic; 0 if it was not measured.
    """
    if not price:
        return "traffic between zones is free"
    said = f"traffic between zones costs {dollars(price)}/GB on each side"
    return f"{said}, an estimated {hourly(training)} for the latest training" if training else said


def elsewhere(price: float, nodes: int, training: float = 0.0) -> str:
    """Return how to allow nodes in another zone than that of the others, as part of a sentence.

    Args:
        price: $ per GB between two zones.
        nodes: The requested number of nodes.
        training: See ``zones_price``.
    """
    return (
        f"allow other zones with `workbench resize --nodes {nodes} --across-zones`, where "
        f"{zones_price(price, training)}"
    )


def extra_charges(offer: Offer, nodes: int) -> str:
    """Return what the price of nodes contains beside the machines, as part of a sentence."""
    address = offer.address_price
    disks = f"{hourly((offer.extra_price - address) * nodes)} for their disks"
    return f"{disks} and {hourly(address * nodes)} for public addresses" if address else disks


@dataclass(frozen=True)
class Interruptions:
    """The cost of interruptions by the provider.

    Args:
        rate: Interruptions of one node per hour.
        seconds: Lost by all nodes per interruption: hand-over, and the steps since the last
            snapshot.
    """

    rate: float = 0.01
    seconds: float = 60.0

    def share_lost(self, nodes: int) -> float:
        """Return the expected share of time that is lost on so many nodes."""
        return nodes * self.rate * self.seconds / HOUR
