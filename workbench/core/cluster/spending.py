"""Decide whether a cluster may cost more than the user has confirmed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from workbench.core.cluster.model import ClusterFact, ClusterWish, keeps_nodes
from workbench.core.fleet.cost import elsewhere, is_worth_it, zones_price
from workbench.core.fleet.fallbacks import Candidate, candidates, cheapest_offer, dearest
from workbench.core.fleet.model import Node, Offer
from workbench.core.fleet.offers import collect_needs, judge_quota, rank_offers, total, why_not
from workbench.core.units import dollars, hourly
from workbench.errors import InputError, StateError

# The price was confirmed a moment ago; a small change since then needs no new confirmation.
DRIFT = 0.02


@dataclass(frozen=True)
class AddedSpending:
    """The cost of more nodes at current prices.

    Args:
        nodes: The requested number of nodes.
        before: $/h of the present nodes.
        price: $/h of all requested nodes, with disks and addresses.
        candidate: The purchase that is tried first; None if there is nothing to buy.
        most: $/h that each more node may cost; 0 where the user's max price is the limit.
        traffic: The cost of traffic between zones; empty if all nodes are in one zone.
        unit: What is charged in place of $.
    """

    nodes: int
    before: float
    price: float
    candidate: Candidate | None = None
    most: float = 0.0
    traffic: str = ""
    unit: str = ""

    def __str__(self) -> str:
        first = f"; tried first: {self.candidate}" if self.candidate else ""
        if self.most:
            first += f", for at most {hourly(self.most)} each, else it waits"
        first += f"; {self.traffic}" if self.candidate and self.traffic else ""
        also = "" if self.unit else " with their disks and addresses"
        return (
            f"{_nodes(self.nodes)} would cost about {hourly(self.price, self.unit)}{also}, "
            f"{hourly(self.before, self.unit)} now{first}"
        )

    def is_within(self, agreed: float) -> bool:
        """Return whether a confirmed price, in $/h, covers this one."""
        return self.price <= agreed * (1 + DRIFT)


def check_time_left(wish: ClusterWish, fact: ClusterFact, now: float) -> None:
    """Raise an error if the time to live of the cluster is over.

    Raises:
        StateError: It is. A cluster of nodes keeps its definition, and starts elsewhere for no run.
    """
    if keeps_nodes(wish, fact):
        raise StateError(
            f"The time to live of cluster {wish.name!r} is over, and its nodes were released",
            f"start them again with `workbench up --cluster {wish.name} --ttl 8h`, or choose "
            "another cluster with --cluster.",
        )
    if wish.up and 0 < wish.fleet.expires <= now:
        raise StateError(
            f"The time to live of cluster {wish.name!r} is over, and it is being taken down",
            "try again in a minute.",
        )


def needs_confirmation(wish: ClusterWish, nodes: int) -> bool:
    """Return whether so many nodes cost more than was confirmed."""
    return wish.fleet.place.asks_first and nodes > wish.fleet.nodes


def growth(
    wish: ClusterWish,
    nodes: int,
    offers: Sequence[Offer],
    there: Sequence[Node],
    spent: float,
    training: float = 0.0,
) -> AddedSpending:
    """Return the cost of giving a cluster more nodes.

    Args:
        offers: The offers that fit the cluster's requirements now.
        there: The nodes that are paid for.
        spent: $ so far.
        training: Measured $/h of the training's traffic, if it crosses zones.

    Raises:
        InputError: No offer fits.
        StateError: It exceeds the max price or the budget, or the quota is too small.
    """
    fleet, unit = wish.fleet, wish.fleet.place.unit
    before = sum(node.price for node in there if not node.is_going)
    more = nodes - sum(not node.is_going for node in there)
    if more <= 0:
        return AddedSpending(nodes, before, before, unit=unit)
    if why := why_not(fleet, offers):
        raise InputError(why)
    needs = collect_needs(fleet)
    fitting = rank_offers(offers, needs, more)
    kept = [one for one in there if one.zone and not one.is_going]
    near = (kept[0].type, kept[0].zone) if kept else None
    if near and not fleet.across_zones:
        fitting = tuple(offer for offer in fitting if offer.zone == near[1])
        if not fitting:
            raise StateError(
                f"{near[1]}, where the other nodes are, offers nothing that fits",
                f"{elsewhere(fleet.place.zone_price, nodes, training)}.",
            )
    # No limit yet: the price is also reported if it is too high.
    tried = candidates(
        needs,
        offers,
        more,
        more,
        near=near,
        across_zones=fleet.across_zones,
        placement=nodes > 1,
    )
    if not tried:
        quota = judge_quota(fitting[0], more)
        raise quota.error
    offer = cheapest_offer(tried[0], fitting)
    price = before + total(offer, more)
    traffic = zones_price(fleet.place.zone_price, training) if near and fleet.across_zones else ""
    most = 0.0 if unit else dearest(fleet, price / nodes).most_price
    found = AddedSpending(nodes, before, price, tried[0], most, traffic, unit)
    if fleet.max_price and price > fleet.max_price:
        raise StateError(
            f"{_nodes(nodes)} would cost {hourly(price, unit)}, more than the max price "
            f"of {hourly(fleet.max_price, unit)}",
            "request fewer, or raise it with `workbench up --max-price`.",
        )
    if not is_worth_it(spent, price, fleet.budget):
        raise StateError(
            f"{dollars(max(0.0, fleet.budget - spent), unit)} of the budget of "
            f"{dollars(fleet.budget, unit)} are left, too little for {_nodes(nodes)} at "
            f"{hourly(price, unit)}",
            "request fewer, or raise it with `workbench up --budget`.",
        )
    return found


def _nodes(count: int) -> str:
    return f"{count} node{'s' if count != 1 else ''}"
