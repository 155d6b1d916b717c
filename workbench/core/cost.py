"""Count what nodes cost: to the second, as the place will bill it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from workbench.core.fleet import Node, NodeState, Place

HOUR = 3600.0
# EC2 bills a Linux machine by the second, and its first minute whole.
BILLED_AT_LEAST = 60.0
# Taken back by the place within its first hour, a Linux spot machine is free.
CREDITED_SECONDS = HOUR
# What a fleet costs from the decision to end it until nothing is billed any longer.
RESERVE_SECONDS = 180.0
# A fleet that could be paid for less than this is not worth its start.
WORTH_SECONDS = 600.0
MONTH_HOURS = 730.0
# $ for a GiB and hour of a general-purpose volume: gp3 in us-east-1, $0.08 a month, as
# aws.amazon.com/ebs/pricing has it; no region is twice as dear.
STORAGE_PRICE = 0.08 / MONTH_HOURS
# The same of a snapshot in the standard tier, $0.05 a month; only blocks that are not empty count.
SNAPSHOT_PRICE = 0.05 / MONTH_HOURS
# GiB of a node's root volume, unless its image needs more.
DISK_GIB = 50

Prices = tuple[tuple[float, float], ...]


@dataclass(frozen=True)
class Bill:
    """What a fleet costs.

    Args:
        spent: $ so far, all nodes that ever were.
        price: $/h now.
        left: $ of the budget; None where there is none.
        seconds: For how long the budget, or the time to live, still lasts; None for ever.
    """

    spent: float
    price: float
    left: float | None = None
    seconds: float | None = None

    def __repr__(self) -> str:
        return f"<Bill ${self.spent:.2f}, ${self.price:.3f}/h>"


def storage_price(gibibytes: float) -> float:
    """Return $/h of a volume."""
    return STORAGE_PRICE * gibibytes


def extra_price(place: Place) -> float:
    """Return $/h of what is billed beside each node of a place: its disk."""
    return storage_price(DISK_GIB) if place is Place.EC2 else 0.0


def repriced(prices: Prices, price: float, now: float) -> Prices:
    """Return the segments of a price (epoch seconds of its beginning, $/h), with today's."""
    if prices and prices[-1][1] == price:
        return prices
    return (*(segment for segment in prices if segment[0] < now), (now, price))


def charge(prices: Sequence[tuple[float, float]], start: float, end: float) -> float:
    """Return $ for one machine from ``start`` to ``end``, by segments of price, oldest first.

    Before the first segment its price counts already.
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
    extra: float = 0.0,
) -> float:
    """Return $ for one node.

    Args:
        prices: Segments of its price.
        launched: 0 when paying has not begun.
        until: Now, or when it ended.
        interrupted: Whether the place took it back, which is free in the first hour.
        extra: $/h of what is billed beside it and never credited: its disk.
    """
    if not launched or until < launched:
        return 0.0
    seconds = max(BILLED_AT_LEAST, until - launched)
    free = interrupted and until - launched < CREDITED_SECONDS
    machine = 0.0 if free else charge(prices, launched, launched + seconds)
    return machine + extra * seconds / HOUR


def metered(
    node: Node,
    prices: Sequence[tuple[float, float]],
    now: float,
    *,
    interrupted: bool = False,
    extra: float = 0.0,
) -> Node:
    """Return the node with what it costs now and has cost so far."""
    gone = node.state is NodeState.GONE
    until = node.ended if gone and node.ended else now
    spent = node_spent(prices, node.launched, until, interrupted=interrupted, extra=extra)
    price = 0.0 if gone or not prices else prices[-1][1] + extra
    return replace(node, spent=spent, price=price)


def bill(nodes: Iterable[Node], *, budget: float = 0.0, expires: float = 0.0, now: float) -> Bill:
    """Return what all nodes cost, and for how long that may go on."""
    nodes = tuple(nodes)
    spent = sum(node.spent for node in nodes)
    price = sum(node.price for node in nodes if node.state is not NodeState.GONE)
    left = max(0.0, budget - spent) if budget else None
    ends = [max(0.0, expires - now)] if expires else []
    if left is not None and price:
        ends.append(max(0.0, left * HOUR / price - RESERVE_SECONDS))
    return Bill(spent, price, left, min(ends) if ends else None)


def is_used_up(spent: float, price: float, budget: float) -> bool:
    """Tell whether all has to end now for the budget not to be exceeded.

    Args:
        price: $/h of all that is still billed.
    """
    return bool(budget) and spent + price * RESERVE_SECONDS / HOUR >= budget


def is_worth_it(spent: float, price: float, budget: float) -> bool:
    """Tell whether the budget lasts for a while at ``price``, $/h of all that would be billed."""
    return not budget or spent + price * WORTH_SECONDS / HOUR <= budget
