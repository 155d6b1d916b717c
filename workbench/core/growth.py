"""Decide whether a cluster may cost more than its person has said yes to."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from workbench.core.cluster import DEFAULT_CLUSTER, ClusterWish
from workbench.core.cost import extra_price, is_worth_it
from workbench.core.fleet import Node, NodeState, Offer, Place
from workbench.core.ladder import Rung, rungs
from workbench.core.offers import judge_quota, ranked, total, why_none
from workbench.errors import InputError, StateError

# Of these there is a bill. A rehearsal costs nothing, so nothing is asked there.
BILLED = frozenset({Place.EC2})
# What is agreed to is a price of a moment ago; one that moved less is the same.
DRIFT = 0.02


@dataclass(frozen=True)
class Growth:
    """What more nodes come to, at the prices of now.

    Args:
        nodes: How many there are to be.
        before: $/h of those that are there.
        price: $/h of all of them then, with their disks.
        rung: What is bought first; None where there is nothing to buy.
    """

    nodes: int
    before: float
    price: float
    rung: Rung | None = None

    def __str__(self) -> str:
        first = f"; tried first: {self.rung}" if self.rung else ""
        return (
            f"{_nodes(self.nodes)} would cost about ${self.price:.4f}/h with their disks, "
            f"${self.before:.4f}/h now{first}"
        )

    def is_within(self, agreed: float) -> bool:
        """Tell whether somebody who agreed to that many $/h agreed to this."""
        return self.price <= agreed * (1 + DRIFT)


def refuse_unasked(wish: ClusterWish, now: float) -> None:
    """Refuse to start what would be paid for, or deleted at once, though nobody said so.

    Raises:
        StateError: What was deleted costs money, or the time to live is over.
    """
    name = wish.name
    flag = "" if name == DEFAULT_CLUSTER else f" --cluster {name}"
    if 0 < wish.fleet.expires <= now:
        raise StateError(
            f"The time to live of cluster {name!r} is over; `workbench up{flag}`, or "
            "%dist_cluster, starts it with a new one."
        )
    if not wish.up and wish.fleet.place in BILLED:
        raise StateError(
            f"Cluster {name!r} was deleted and its nodes cost money, so nothing starts them "
            f"unasked; `workbench up{flag}`, or %dist_cluster, shows the price and asks."
        )


def needs_a_yes(wish: ClusterWish, nodes: int) -> bool:
    """Tell whether so many nodes cost more than what was agreed to."""
    return wish.fleet.place in BILLED and nodes > wish.fleet.nodes


def growth(
    wish: ClusterWish, nodes: int, offers: Sequence[Offer], there: Sequence[Node], spent: float
) -> Growth:
    """Return what it comes to that a cluster is to have more nodes.

    Args:
        offers: What fits the cluster's needs now.
        there: The nodes that are paid for.
        spent: $ so far.

    Raises:
        InputError: Nothing on offer does.
        StateError: It would cost more than was said, or the quota does not reach.
    """
    fleet, extra = wish.fleet, extra_price(wish.fleet.place)
    before = sum(node.price for node in there if node.state is not NodeState.LEAVING)
    more = nodes - sum(node.state is not NodeState.LEAVING for node in there)
    if more <= 0:
        return Growth(nodes, before, before)
    fitting = ranked(offers, fleet.needs, more)
    if not fitting:
        raise InputError(why_none(fleet, offers))
    near = next(((one.type, one.zone) for one in there if one.zone), None)
    # No bound yet: what it would cost is to be said, also where that is too much.
    tried = rungs(fleet.needs, offers, more, more, near=near, placement=nodes > 1)
    if not tried:
        quota = judge_quota(fitting[0], more)
        raise StateError(f"{quota.found}. {quota.remedy}")
    price = before + total(_price(tried[0], fitting), more, extra)
    found = Growth(nodes, before, price, tried[0])
    if fleet.most_price and price > fleet.most_price:
        raise StateError(
            f"{_nodes(nodes)} would cost ${price:.4f}/h, more than the ${fleet.most_price:g}/h "
            "that all may cost; ask for fewer, or raise that with `workbench up --max-price`."
        )
    if not is_worth_it(spent, price, fleet.budget):
        raise StateError(
            f"${max(0.0, fleet.budget - spent):.2f} of the budget of ${fleet.budget:.2f} are left, "
            f"too little for {_nodes(nodes)} at ${price:.4f}/h; ask for fewer, or raise it with "
            "`workbench up --budget`."
        )
    return found


def _price(rung: Rung, offers: Sequence[Offer]) -> float:
    return min(o.price for o in offers if o.type in rung.types and rung.zone in ("", o.zone))


def _nodes(count: int) -> str:
    return f"{count} node{'s' if count != 1 else ''}"
