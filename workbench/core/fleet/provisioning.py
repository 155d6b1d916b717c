"""Decide what to buy for the missing nodes, without buying any node twice."""

from __future__ import annotations

from dataclasses import replace

from workbench.core.fleet.cost import elsewhere, is_worth_it
from workbench.core.fleet.facts import Action, Buy, RecordPurchase, Wait
from workbench.core.fleet.fallbacks import candidates
from workbench.core.fleet.membership import by_worth
from workbench.core.fleet.model import MachineState, Node, NodeState, Offer, Purchase
from workbench.core.fleet.offers import (
    collect_needs,
    fits,
    judge_quota,
    rank_offers,
    total,
    why_not,
)
from workbench.core.fleet.purchases import (
    LAG_SECONDS,
    REPEAT_SECONDS,
    Pause,
    PurchaseOutcome,
    PurchaseRecord,
    count_promised,
    give_up,
    next_purchase,
)
from workbench.core.fleet.state import FleetView
from workbench.core.units import dollars, hourly

# If so many nodes do not start, nothing more is bought until the user has looked.
MOST_FAILURES = 3
_ROUNDING = 1e-9


def supply(view: FleetView, target: int, least: int) -> list[Action]:
    """Return how to get the missing nodes, one purchase at a time.

    Args:
        target: The desired number of nodes.
        least: With fewer, nothing can run.
    """
    there = [node for node in view.alive if not view.is_taken(node)]
    coming = count_promised(view.purchases, view.fact.machines, view.fact.seen)
    missing = target - len(there) - coming
    if not view.is_rented:
        return [Wait(0.0, _too_few_hosts(view, target))] if missing > 0 else []
    room = _room(view, there)
    record = next((record for record in view.purchases if record.is_open), None)
    if record:
        return _repeat_call(view, record, missing, room)
    # Before the first list, any number of machines may exist already.
    if missing <= 0 or view.fact.offers is None or not view.fact.seen or view.silent:
        return []
    if _failed(view) and not any(contact.open for contact in view.contacts.values()):
        if there or coming:
            return []
        missing = 1  # the cause may be the same for all, and one shows it
    fewest = min(missing, max(1, least - len(there) - coming))
    if why := _why_not(view, missing, fewest, room):
        return [Wait(0.0, why)]
    return _next(view, missing, fewest, room, placement=target > 1)


def give_up_open(view: FleetView) -> list[Action]:
    """Close purchases that are no longer wanted, once it is certain that no machine comes."""
    return [
        RecordPurchase(give_up(record))
        for record in view.purchases
        if record.is_open
        and record.purchase.token not in view.fact.calling
        and view.fact.seen >= record.at + LAG_SECONDS
    ]


def is_under_way(view: FleetView) -> bool:
    """Return whether a machine is still ending, or could still come."""
    return (
        any(record.is_open for record in view.purchases)
        or count_promised(view.purchases, view.fact.machines, view.fact.seen) > 0
        or any(node.state is not NodeState.GONE for node in view.nodes.values())
        or (view.is_rented and any(m.state is not MachineState.GONE for m in view.fact.machines))
        or any(record.purchase.token in view.fact.calling for record in view.purchases)
    )


def _room(view: FleetView, there: list[Node]) -> float:
    """Return the $/h that may still be bought; 0 for no limit, and below 0 for nothing."""
    most = view.wish.max_price
    if not most:
        return 0.0
    return (most - sum(node.price for node in there)) or -1.0


def _repeat_call(
    view: FleetView, record: PurchaseRecord, missing: int, room: float
) -> list[Action]:
    """Repeat an open call if it still has what is wanted; otherwise find out its outcome."""
    if record.purchase.token in view.fact.calling or view.fact.offers is None:
        return []
    bought = record.purchase
    does = {
        offer.type
        for offer in view.fact.offers
        if offer.zone == bought.zone and fits(collect_needs(view.wish), offer)
    }
    near = _near(view)
    is_near = near is None or view.wish.across_zones or bought.zone == near[1]
    extra_price = max((offer.extra_price for offer in _offers(view, bought)), default=0.0)
    price = bought.max_price and bought.max_price + extra_price
    most = view.wish.most_price
    is_paid = not room or 0 < price * bought.count <= room + _ROUNDING
    is_paid = is_paid and (not most or 0 < price <= most + _ROUNDING)
    is_wanted = bought.count <= missing and does.issuperset(bought.types) and is_paid and is_near
    if not is_wanted or view.now - record.at > REPEAT_SECONDS:
        return give_up_open(view)
    if view.now < record.repeats_at:
        return []
    tries = record.tries + 1
    again = replace(
        record, outcome=PurchaseOutcome.WRITTEN, kind="", message="", at=view.now, tries=tries
    )
    return [Buy(again)]


def _next(
    view: FleetView, missing: int, fewest: int, room: float, *, placement: bool
) -> list[Action]:
    fact, needs = view.fact, collect_needs(view.wish)
    near = _near(view)
    tried = candidates(
        needs,
        fact.offers or (),
        missing,
        fewest,
        room=room,
        most=view.wish.most_price,
        near=near,
        across_zones=view.wish.across_zones,
        placement=placement,
    )
    step = next_purchase(
        view.purchases,
        tried,
        cluster=fact.cluster,
        founded=fact.founded,
        asked=fact.asked,
        now=view.now,
    )
    if isinstance(step, Pause):
        return [Wait(step.until, f"{step.why}{_elsewhere(view, near)}")]
    price = view.price + _price(view, step)
    if not is_worth_it(view.spent, price, view.wish.budget):
        return [Wait(0.0, _too_dear(view, price))]
    return [Buy(step)]


def _near(view: FleetView) -> tuple[str, str] | None:
    """Return the type and the zone of the nodes that exist or are starting; None without any."""
    for node in by_worth(view.kept, view.fact.used):
        if node.zone:
            return node.type, node.zone
    tokens = {machine.token for machine in view.machines.values() if machine.id in _ids(view)}
    for record in reversed(view.purchases):
        bought, seen = record.purchase, view.fact.seen
        coming = count_promised([record], view.fact.machines, seen) > 0
        if bought.zone and (coming or bought.token in tokens):
            return bought.types[0], bought.zone
    return None


def _ids(view: FleetView) -> set[str]:
    return {node.id for node in view.kept}


def _elsewhere(view: FleetView, near: tuple[str, str] | None) -> str:
    """Return what to do if only another zone has the missing nodes; empty otherwise."""
    if near is None or view.wish.across_zones:
        return ""
    others = [
        offer
        for offer in view.fact.offers or ()
        if offer.zone != near[1] and fits(view.wish.needs, offer)
    ]
    if not others:
        return ""
    remedy = elsewhere(view.wish.place.zone_price, view.wish.nodes)
    return f" Only {near[1]} is tried, the zone of the other nodes; {remedy}."


def _price(view: FleetView, record: PurchaseRecord) -> float:
    """Return the highest $/h of a purchase at current prices."""
    bought = record.purchase
    prices = [offer.hour for offer in _offers(view, bought)]
    return max(prices, default=0.0) * bought.count


def _offers(view: FleetView, bought: Purchase) -> list[Offer]:
    return [
        offer
        for offer in view.fact.offers or ()
        if offer.type in bought.types and offer.zone == bought.zone
    ]


# -- why nothing is bought


def _why_not(view: FleetView, missing: int, fewest: int, room: float) -> str:
    """Return why no candidate can be tried, with the remedy; empty if one can."""
    failed = _failed(view)
    if len(failed) >= MOST_FAILURES:
        last = max(failed, key=lambda node: node.since)
        advice = view.fact.silence or (
            "See their logs, and correct the image or the prepare script."
        )
        return (
            f"{len(failed)} nodes failed, the last because {last.message}. {advice} Then start "
            "the cluster again."
        )
    offers, needs = view.fact.offers or (), collect_needs(view.wish)
    fitting = rank_offers(offers, needs, missing)
    if why := why_not(view.wish, offers):
        return why
    near, across_zones = _near(view), view.wish.across_zones
    if near and not across_zones:
        fitting = tuple(offer for offer in fitting if offer.zone == near[1])
    if near and not fitting:
        return (
            f"{near[1]}, where the other nodes are, offers nothing that fits; "
            f"{elsewhere(view.wish.place.zone_price, view.wish.nodes)}."
        )
    if candidates(
        needs,
        offers,
        missing,
        fewest,
        room=room,
        most=view.wish.most_price,
        near=near,
        across_zones=across_zones,
    ):
        return ""
    cheapest = min(fitting, key=lambda offer: offer.hour)
    price = total(cheapest, fewest)
    if room and price > room + _ROUNDING:
        disks = ", disks and addresses included" if cheapest.extra_price else ""
        most = hourly(view.wish.max_price)
        return (
            f"{_nodes(fewest)} more would cost {hourly(price)} ({cheapest.type}{disks}), "
            f"and the max price is {most}; raise it, or request fewer nodes."
        )
    if (each := view.wish.most_price) and cheapest.hour > each + _ROUNDING:
        return (
            f"A node costs {hourly(cheapest.hour)} now ({cheapest.type}), and at most "
            f"{hourly(each)} was confirmed; it is bought when the price falls, or raise the limit "
            "with `workbench up --max-price`."
        )
    return judge_quota(fitting[0], fewest).remedy


def _failed(view: FleetView) -> list[Node]:
    """Return the nodes that did not start, or could not be prepared, since the wish."""
    return [
        node for node in view.nodes.values() if node.failed and node.launched >= view.fact.asked
    ]


def _too_dear(view: FleetView, price: float) -> str:
    left, unit = max(0.0, view.wish.budget - view.spent), view.wish.place.unit
    return (
        f"{dollars(left, unit)} of the budget are left, which is too little to start at "
        f"{hourly(price, unit)}; "
        "raise the budget, or request fewer or smaller nodes."
    )


def _too_few_hosts(view: FleetView, target: int) -> str:
    failed = [node for node in view.kept if node.failed]
    if failed:
        return f"{failed[0].id} cannot be used: {failed[0].message}"
    return f"{_nodes(target)} are wanted, but {len(view.machines)} hosts are listed; list more."


def _nodes(count: int) -> str:
    return f"{count} node{'s' if count != 1 else ''}"
