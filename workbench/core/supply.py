"""Decide what to buy for the nodes that a fleet lacks: never the same node twice."""

from __future__ import annotations

from dataclasses import replace

from workbench.core.cost import is_worth_it
from workbench.core.fleet import MachineState, Node, NodeState
from workbench.core.fleetfact import Action, Buy, Record, Wait
from workbench.core.fleetview import FleetView
from workbench.core.ladder import rungs
from workbench.core.membership import by_worth
from workbench.core.offers import fits, judge_quota, ranked, total, why_none
from workbench.core.orders import (
    LAG_SECONDS,
    REPEAT_SECONDS,
    Order,
    Outcome,
    Pause,
    given_up,
    next_order,
    promised,
)

# As many nodes that do not come up, and nothing more is bought until a person has looked.
MOST_FAILURES = 3
_ROUNDING = 1e-9


def supply(view: FleetView, target: int, least: int) -> list[Action]:
    """Return how to get the nodes that are missing, one purchase at a time.

    Args:
        target: How many nodes there are to be.
        least: With fewer of them nothing can be done.
    """
    there = [node for node in view.alive if not view.is_taken(node)]
    coming = promised(view.orders, view.fact.machines, view.fact.seen)
    missing = target - len(there) - coming
    if not view.is_lent:
        return [Wait(0.0, _too_few_hosts(view, target))] if missing > 0 else []
    room = _room(view, there)
    order = next((order for order in view.orders if order.is_open), None)
    if order:
        return _repeated(view, order, missing, room)
    # What was never listed could be there already.
    if missing <= 0 or view.fact.offers is None or not view.fact.seen:
        return []
    fewest = min(missing, max(1, least - len(there) - coming))
    if why := _why_not(view, missing, fewest, room):
        return [Wait(0.0, why)]
    return _next(view, missing, fewest, room, placement=target > 1)


def give_up_open(view: FleetView) -> list[Action]:
    """Close the orders that nobody wants any longer, once it is certain that nothing comes."""
    return [
        Record(given_up(order))
        for order in view.orders
        if order.is_open
        and order.purchase.token not in view.fact.calling
        and view.fact.seen >= order.at + LAG_SECONDS
    ]


def is_under_way(view: FleetView) -> bool:
    """Tell whether something is still ending, or could still come."""
    return (
        any(order.is_open for order in view.orders)
        or promised(view.orders, view.fact.machines, view.fact.seen) > 0
        or any(node.state is not NodeState.GONE for node in view.nodes.values())
        or (view.is_lent and any(m.state is not MachineState.GONE for m in view.fact.machines))
        or any(order.purchase.token in view.fact.calling for order in view.orders)
    )


def _room(view: FleetView, there: list[Node]) -> float:
    """Return the $/h that may still be bought; 0 for no bound, and below 0 for nothing."""
    most = view.wish.most_price
    if not most:
        return 0.0
    return (most - sum(node.price for node in there)) or -1.0


def _repeated(view: FleetView, order: Order, missing: int, room: float) -> list[Action]:
    """Make an open call again while it still says what is wanted; else see what came of it."""
    if order.purchase.token in view.fact.calling or view.fact.offers is None:
        return []
    bought = order.purchase
    does = {
        offer.type
        for offer in view.fact.offers
        if offer.zone == bought.zone and fits(view.wish.needs, offer)
    }
    price = bought.most_price and bought.most_price + view.fact.extra
    is_paid = not room or 0 < price * bought.count <= room + _ROUNDING
    is_wanted = bought.count <= missing and does.issuperset(bought.types) and is_paid
    if not is_wanted or view.now - order.at > REPEAT_SECONDS:
        return give_up_open(view)
    if view.now < order.repeats_at:
        return []
    tries = order.tries + 1
    again = replace(order, outcome=Outcome.WRITTEN, kind="", message="", at=view.now, tries=tries)
    return [Buy(again)]


def _next(
    view: FleetView, missing: int, fewest: int, room: float, *, placement: bool
) -> list[Action]:
    fact, needs = view.fact, view.wish.needs
    beside = by_worth(view.kept, fact.used)
    near = (beside[0].type, beside[0].zone) if beside and beside[0].zone else None
    tried = rungs(
        needs,
        fact.offers or (),
        missing,
        fewest,
        room=room,
        extra=fact.extra,
        near=near,
        placement=placement,
    )
    step = next_order(
        view.orders,
        tried,
        cluster=fact.cluster,
        founded=fact.founded,
        asked=fact.asked,
        now=view.now,
    )
    if isinstance(step, Pause):
        return [Wait(step.until, step.why)]
    price = view.price + _price(view, step)
    if not is_worth_it(view.spent, price, view.wish.budget):
        return [Wait(0.0, _too_dear(view, price))]
    return [Buy(step)]


def _price(view: FleetView, order: Order) -> float:
    """Return the $/h that an order costs at most, as prices are now."""
    bought = order.purchase
    prices = [
        offer.price
        for offer in view.fact.offers or ()
        if offer.type in bought.types and offer.zone == bought.zone
    ]
    return total(max(prices, default=0.0), bought.count, view.fact.extra)


# -- why nothing is bought


def _why_not(view: FleetView, missing: int, fewest: int, room: float) -> str:
    """Return why no rung could be tried, with the remedy; empty when one can."""
    failed = [
        node for node in view.nodes.values() if node.failed and node.launched >= view.fact.asked
    ]
    if len(failed) >= MOST_FAILURES:
        last = max(failed, key=lambda node: node.since)
        return (
            f"{len(failed)} nodes failed, the last because {last.message}; see their logs, mend "
            "the image or the prepare script, then press Start again."
        )
    offers, needs = view.fact.offers or (), view.wish.needs
    fitting = ranked(offers, needs, missing)
    if not fitting:
        return why_none(view.wish, offers)
    extra = view.fact.extra
    if rungs(needs, offers, missing, fewest, room=room, extra=extra):
        return ""
    cheapest = min(fitting, key=lambda offer: offer.price)
    price = total(cheapest.price, fewest, extra)
    if room and price > room + _ROUNDING:
        disks = ", disks included" if extra else ""
        return (
            f"{_nodes(fewest)} more would cost ${price:.3f}/h ({cheapest.type}{disks}), "
            f"and all together may cost ${view.wish.most_price:g}/h; raise that, or ask for less."
        )
    return judge_quota(fitting[0], fewest).remedy


def _too_dear(view: FleetView, price: float) -> str:
    left = max(0.0, view.wish.budget - view.spent)
    return (
        f"${left:.2f} of the budget are left, which is too little to start at ${price:.3f}/h; "
        "raise the budget, or ask for less."
    )


def _too_few_hosts(view: FleetView, target: int) -> str:
    failed = [node for node in view.kept if node.failed]
    if failed:
        return f"{failed[0].id} cannot be used: {failed[0].message}"
    return f"{_nodes(target)} are wanted, but {len(view.machines)} hosts are listed; list more."


def _nodes(count: int) -> str:
    return f"{count} node{'s' if count != 1 else ''}"
