"""List what to try, one after another, until a place has enough machines."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

from workbench.core.fleet import Needs, Offer, Purchase
from workbench.core.offers import quota_class, ranked

MOST_TYPES = 8
MOST_ZONES = 4
# Nobody who looked at the first rung's price expects to pay more than twice of it.
DEAREST = 2.0
# Prices are sums of decimals; a bound that is met exactly is met.
_ROUNDING = 1e-9


@dataclass(frozen=True)
class Rung:
    """One way to buy what is missing; its fields are those of ``Purchase``."""

    count: int
    least: int
    types: tuple[str, ...]
    zone: str
    placement: bool = False
    most_price: float = 0.0

    def __str__(self) -> str:
        nodes = f"{self.count} node{'s' if self.count != 1 else ''}"
        if self.least < self.count:
            nodes = f"{self.least} to {nodes}"
        close = ", close together" if self.placement else ""
        return f"{nodes} of {' or '.join(self.types)} in {self.zone or 'any zone'}{close}"


def token(cluster: str, generation: str, rung: int, count: int) -> str:
    """Return the word, of 64 characters, that makes a repeated call the same call.

    Args:
        generation: Differs for every ascent of the ladder, and from those of an earlier cluster
            of the same name.
    """
    text = "\n".join((cluster, generation, str(rung), str(count)))
    return hashlib.sha256(text.encode()).hexdigest()


def purchase(cluster: str, generation: str, number: int, rung: Rung) -> Purchase:
    """Return the call that tries ``rung``, the ladder's ``number``-th."""
    return Purchase(
        cluster=cluster,
        token=token(cluster, generation, number, rung.count),
        rung=number,
        **vars(rung),
    )


def rung_of(bought: Purchase) -> Rung:
    """Return the rung that a purchase tried."""
    return Rung(
        bought.count, bought.least, bought.types, bought.zone, bought.placement, bought.most_price
    )


def rungs(
    needs: Needs,
    offers: Iterable[Offer],
    count: int,
    least: int,
    *,
    room: float = 0.0,
    extra: float = 0.0,
    near: tuple[str, str] | None = None,
    placement: bool = True,
) -> tuple[Rung, ...]:
    """Return what to try, in order; nothing when no offer will do.

    Close together, then not; more types of the class; the other zones; then the same for as
    many as there are, at least ``least``.

    Args:
        room: $/h that all of them together may cost; 0 for no bound.
        extra: $/h of one node beside its price: its disk.
        near: Type and zone of the nodes that are there already: the same is best.
        placement: Whether it matters that they stand close together.
    """
    fitting = ranked(offers, needs, count)
    if near:
        fitting = tuple(sorted(fitting, key=lambda offer: _distance(offer, near)))
    bound = _Bound(room, extra)
    full = [offer for offer in fitting if bound.most(offer) >= count]
    some = [offer for offer in fitting if bound.most(offer) >= least]
    found: list[Rung] = []
    if full:
        best = full[0]
        alone = Rung(count, count, (best.type,), best.zone, most_price=bound.price(count))
        found += [replace(alone, placement=True)] if placement else []
        found.append(alone)
        found += _by_zone(full, lambda here: _rung(here, count, count, bound))
    if some:
        found += _by_zone(some, lambda here: _rung(here, count, least, bound))
    return tuple(dict.fromkeys(found))


def _distance(offer: Offer, near: tuple[str, str]) -> tuple[bool, bool]:
    return offer.zone != near[1], offer.type != near[0]


@dataclass(frozen=True)
class _Bound:
    """What all may cost, as ``rungs`` is told."""

    room: float
    extra: float

    def most(self, offer: Offer) -> int:
        """Return how many the price and the quota allow."""
        price = offer.price + self.extra
        by_price = int(self.room / price + _ROUNDING) if self.room and price else 1 << 30
        has_quota = offer.quota is not None and offer.vcpus
        by_quota = (offer.quota or 0) // offer.vcpus if has_quota else 1 << 30
        return min(by_price, by_quota)

    def price(self, count: int) -> float:
        """Return the $/h that one of so many may cost, its disk apart; 0 for no bound."""
        return self.room / count - self.extra if self.room else 0.0


def _by_zone(offers: Sequence[Offer], make: Callable[[list[Offer]], Rung]) -> list[Rung]:
    zones = list(dict.fromkeys(offer.zone for offer in offers))[:MOST_ZONES]
    alike = _alike(offers)
    here = [[offer for offer in alike if offer.zone == zone] for zone in zones]
    return [make(offers) for offers in here if offers]


def _alike(offers: Sequence[Offer]) -> list[Offer]:
    """Keep the types of the best one's class that do not cost much more."""
    best = offers[0]
    return [
        offer
        for offer in offers
        if quota_class(offer.type) == quota_class(best.type)
        and offer.gpus == best.gpus
        and offer.price <= DEAREST * best.price + _ROUNDING
    ]


def _rung(offers: Sequence[Offer], count: int, least: int, bound: _Bound) -> Rung:
    """Ask for as many as any of the types allows, of all types that allow as many."""
    asked = min(count, max(bound.most(offer) for offer in offers))
    types = dict.fromkeys(offer.type for offer in offers if bound.most(offer) >= asked)
    zone, price = offers[0].zone, bound.price(asked)
    return Rung(asked, min(least, asked), tuple(types)[:MOST_TYPES], zone, False, price)
