"""Compute what nodes cost, to the second, as the provider bills it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from workbench.core.fleet.model import Node, NodeState
from workbench.core.units import dollars, hourly

HOUR = 3600.0
# EC2 bills a Linux machine by the second, but its whole first minute.
BILLED_AT_LEAST = 60.0
# A Linux spot machine that is interrupted within its first hour is free.
CREDITED_SECONDS = HOUR
# How long a fleet still costs after the decision to end it: its runs stop and are saved, ...
RESERVE_SECONDS = 180.0
# ... and then, at the latest, the nodes are released: copies take at most a minute, and a machine
# of EC2 is billed until it shuts down.
RELEASE_SECONDS = 90.0
# A fleet whose budget lasts for less than this is not started.
WORTH_SECONDS = 600.0
MONTH_HOURS = 730.0
# $ per GiB and hour of a general-purpose volume: gp3 in us-east-1, $0.08 a month, as in
# aws.amazon.com/ebs/pricing; no region costs twice as much.
STORAGE_PRICE = 0.08 / MONTH_HOURS
# $ per GiB and hour of a snapshot in the standard tier, $0.05 a month; empty blocks are free.
SNAPSHOT_PRICE = 0.05 / MONTH_HOURS
# $ per GB between two zones of a region, for both the sender and the receiver: "Data transfer
# within the same AWS Region", aws.amazon.com/ec2/pricing/on-demand, 2026.
ZONE_PRICE = 0.01
# $/h of a public IPv4 address in use, since 2024-02-01: "Public IPv4 address",
# aws.amazon.com/vpc/pricing, 2026.
ADDRESS_PRICE = 0.005
# $ per GB to the internet: the first 10 TB a month of us-east-1, beyond the 100 GB that are free,
# aws.amazon.com/ec2/pricing/on-demand, 2026. Inbound traffic is free.
OUT_PRICE = 0.09
# $ per GB to another region: "Data transfer out from EC2 to other AWS regions" of us-east-1.
REGION_PRICE = 0.02
# GiB of a node's root volume, unless its image needs more.
DISK_GIB = 50

Prices = tuple[tuple[float, float], ...]


@dataclass(frozen=True)
class FleetCost:
    """The cost of a fleet.

    Args:
        spent: $ so far, for all nodes that ever were.
        price: $/h now.
        left: $ that are left of the budget; None without a budget.
        seconds: How long the budget, or the time to live, still lasts; None forever.
        traffic: $ of ``spent`` for traffic, estimated.
    """

    spent: float
    price: float
    left: float | None = None
    seconds: float | None = None
    traffic: float = 0.0

    def __repr__(self) -> str:
        return f"<FleetCost {dollars(self.spent)}, {hourly(self.price)}>"


def storage_price(gibibytes: float) -> float:
    """Return the $/h of a volume."""
    return STORAGE_PRICE * gibibytes


def extra_price(gibibytes: float, *, public: bool) -> float:
    """Return the $/h of what is billed beside a machine of EC2.

    Args:
        gibibytes: Size of its root volume.
        public: Whether it has a public IPv4 address.
    """
    return storage_price(gibibytes) + (ADDRESS_PRICE if public else 0.0)


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
    extra_price: float = 0.0,
) -> float:
    """Return the $ for one node.

    Args:
        prices: Segments of its price.
        launched: 0 if it is not billed yet.
        until: Now, or when it ended.
        interrupted: Whether the provider interrupted it, which is free in the first hour.
        extra_price: $/h of what is billed beside it and never refunded: its disk, its address.
    """
    if not launched or until < launched:
        return 0.0
    seconds = max(BILLED_AT_LEAST, until - launched)
    free = interrupted and until - launched < CREDITED_SECONDS
    machine = 0.0 if free else charge(prices, launched, launched + seconds)
    return machine + extra_price * seconds / HOUR


def meter_node(
    node: Node,
    prices: Sequence[tuple[float, float]],
    now: float,
    *,
    interrupted: bool = False,
) -> Node:
    """Return the node with its present price and its cost so far."""
    gone = node.state is NodeState.GONE
    until = node.ended if gone and node.ended else now
    extra_price = node.extra_price
    spent = node_spent(
        prices, node.launched, until, interrupted=interrupted, extra_price=extra_price
    )
    spent += node.traffic
    price = 0.0 if gone or not prices else prices[-1][1] + extra_price
    return replace(node, spent=spent, price=price)


def with_traffic(node: Node, amount: float) -> Node:
    """Return the node with more $ for its traffic; they are never refunded."""
    return replace(node, traffic=node.traffic + amount, spent=node.spent + amount)


def bill(
    nodes: Iterable[Node], *, budget: float = 0.0, expires: float = 0.0, now: float
) -> FleetCost:
    """Return the cost of all nodes, and how long the budget or the time to live lasts."""
    nodes = tuple(nodes)
    spent = sum(node.spent for node in nodes)
    price = sum(node.price for node in nodes if node.state is not NodeState.GONE)
    left = max(0.0, budget - spent) if budget else None
    ends = [max(0.0, expires - now)] if expires else []
    if left is not None and price:
        ends.append(max(0.0, left * HOUR / price - RESERVE_SECONDS))
    traffic = sum(node.traffic for node in nodes)
    return FleetCost(spent, price, left, min(ends) if ends else None, traffic)


def is_used_up(spent: float, price: float, budget: float, seconds: float = RESERVE_SECONDS) -> bool:
    """Return whether everything must end now so that the budget is not exceeded.

    Args:
        price: $/h of everything that is still billed.
        seconds: How long it is still billed.
    """
    return bool(budget) and spent + price * seconds / HOUR >= budget


def budget_clause(budget: float) -> str:
    """Return why nodes go whose budget is used up."""
    return f"the cluster's budget of {dollars(budget)} is used up"


def is_worth_it(spent: float, price: float, budget: float) -> bool:
    """Return whether the budget lasts for a while at ``price``, the $/h of everything billed."""
    return not budget or spent + price * WORTH_SECONDS / HOUR <= budget
