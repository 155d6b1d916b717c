"""List the types and zones to try, in order, until enough nodes are found."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

from workbench.core.fleet.model import FleetWish, Needs, Offer, Purchase
from workbench.core.fleet.offers import rank_offers

MOST_TYPES = 8
MOST_ZONES = 4
# A node costs at most so many times what the first candidate's did when its price was confirmed.
DEAREST = 2.0
# Prices are sums of decimals; a limit that is met exactly is met.
_ROUNDING = 1e-9


@dataclass(frozen=True)
class Candidate:
    """One way to buy the missing nodes; its fields are those of ``Purchase``."""

    count: int
    min_nodes: int
    types: tuple[str, ...]
    zone: str
    placement: bool = False
    max_price: float = 0.0

    def __str__(self) -> str:
        nodes = f"{self.count} node{'s' if self.count != 1 else ''}"
        if self.min_nodes < self.count:
            nodes = f"{self.min_nodes} to {nodes}"
        close = ", close together" if self.placement else ""
        return f"{nodes} of {' or '.join(self.types)} in {self.zone or 'any zone'}{close}"


def build_token(cluster: str, generation: str, number: int, count: int) -> str:
    """Return the token, of 64 characters, that identifies a repeated call as the same.

    Args:
        generation: Differs for each pass through the candidates, and from an earlier cluster of
            the same name.
    """
    text = "\n".join((cluster, generation, str(number), str(count)))
    return hashlib.sha256(text.encode()).hexdigest()


def member(token: str, number: int) -> str:
    """Return a token that is derived from ``token`` by a number; the first is the same."""
    return hashlib.sha256(f"{token}/{number}".encode()).hexdigest() if number else token


def purchase(cluster: str, generation: str, number: int, candidate: Candidate) -> Purchase:
    """Return the call that tries ``candidate``, the candidate with this number."""
    return Purchase(
        cluster=cluster,
        token=build_token(cluster, generation, number, candidate.count),
        number=number,
        **vars(candidate),
    )


def candidate_of(bought: Purchase) -> Candidate:
    """Return the candidate of a purchase."""
    return Candidate(
        bought.count,
        bought.min_nodes,
        bought.types,
        bought.zone,
        bought.placement,
        bought.max_price,
    )


def first_offer(candidate: Candidate, offers: Iterable[Offer]) -> Offer:
    """Return the first choice of a candidate: the cheapest offer of its first type."""
    return min(
        (one for one in offers if one.type in candidate.types and candidate.zone in ("", one.zone)),
        key=lambda one: (candidate.types.index(one.type), one.price),
    )


def cheapest_offer(candidate: Candidate, offers: Iterable[Offer]) -> Offer:
    """Return the cheapest of a candidate's offers, with all that is billed beside machines."""
    fits = (o for o in offers if o.type in candidate.types and candidate.zone in ("", o.zone))
    return min(fits, key=lambda offer: offer.hour)


def candidates(
    needs: Needs,
    offers: Iterable[Offer],
    count: int,
    least: int,
    *,
    room: float = 0.0,
    most: float = 0.0,
    near: tuple[str, str] | None = None,
    across_zones: bool = False,
    placement: bool = True,
) -> tuple[Candidate, ...]:
    """Return the candidates in order; none if no offer fits.

    Close together if the type can, then not; more types of the class; the other zones; then the
    same for as many nodes as there are, at least ``least``. Nodes that join others are bought in
    their zone, because traffic between zones is billed to both sides.

    Args:
        room: $/h that all of them together may cost; 0 for no limit.
        most: $/h that each of them may cost; 0 for no limit.
        near: Type and zone of the existing nodes: the same is best.
        across_zones: Whether another zone than that of these nodes is allowed too.
        placement: Whether the nodes should be close together.
    """
    fitting = rank_offers(offers, needs, count)
    if near:
        fitting = tuple(
            sorted(
                (offer for offer in fitting if across_zones or offer.zone == near[1]),
                key=lambda offer: _distance(offer, near),
            )
        )
    bound = _Bound(room, most)
    full = [offer for offer in fitting if bound.most(offer) >= count]
    some = [offer for offer in fitting if bound.most(offer) >= least]
    found: list[Candidate] = []
    if full:
        best = full[0]
        alone = Candidate(
            count, count, (best.type,), best.zone, max_price=bound.price(count, [best])
        )
        found += [replace(alone, placement=True)] if placement and best.placement else []
        found.append(alone)
        found += _by_zone(full, lambda here: _candidate(here, count, count, bound))
    if some:
        found += _by_zone(some, lambda here: _candidate(here, count, least, bound))
    return tuple(dict.fromkeys(found))


def _distance(offer: Offer, near: tuple[str, str]) -> tuple[bool, bool]:
    return offer.zone != near[1], offer.type != near[0]


def dearest(fleet: FleetWish, price: float) -> FleetWish:
    """Return the nodes with the most that each may cost, when its present $/h is confirmed.

    A max price that the user has set is enough.
    """
    return replace(fleet, most_price=0.0 if fleet.max_price else DEAREST * price)


@dataclass(frozen=True)
class _Bound:
    """The max price of all nodes and of each, as ``candidates`` has them."""

    room: float
    each: float

    def most(self, offer: Offer) -> int:
        """Return how many nodes the max prices and the quota allow."""
        if self.each and offer.hour > self.each + _ROUNDING:
            return 0
        by_price = int(self.room / offer.hour + _ROUNDING) if self.room and offer.hour else 1 << 30
        has_quota = offer.quota is not None and offer.vcpus
        by_quota = (offer.quota or 0) // offer.vcpus if has_quota else 1 << 30
        return min(by_price, by_quota)

    def price(self, count: int, offers: Iterable[Offer]) -> float:
        """Return the $/h that one of so many machines may cost; 0 for no limit."""
        extra_price = max((offer.extra_price for offer in offers), default=0.0)
        limits = [*([self.room / count] if self.room else []), *([self.each] if self.each else [])]
        return min(limits) - extra_price if limits else 0.0


def _by_zone(offers: Sequence[Offer], make: Callable[[list[Offer]], Candidate]) -> list[Candidate]:
    zones = list(dict.fromkeys(offer.zone for offer in offers))[:MOST_ZONES]
    alike = _alike(offers)
    here = [[offer for offer in alike if offer.zone == zone] for zone in zones]
    return [make(offers) for offers in here if offers]


def _alike(offers: Sequence[Offer]) -> list[Offer]:
    """Return the types of the best one's class that cost about as much."""
    best = offers[0]
    return [
        offer
        for offer in offers
        if offer.quota_name == best.quota_name
        and offer.gpus == best.gpus
        and (offer.sustained < 1.0) == (best.sustained < 1.0)
        and offer.price <= DEAREST * best.price + _ROUNDING
    ]


def _candidate(offers: Sequence[Offer], count: int, least: int, bound: _Bound) -> Candidate:
    """Return a candidate for as many nodes as any type allows, with all types that allow them."""
    asked = min(count, max(bound.most(offer) for offer in offers))
    types = dict.fromkeys(offer.type for offer in offers if bound.most(offer) >= asked)
    zone, price = offers[0].zone, bound.price(asked, offers)
    return Candidate(asked, min(least, asked), tuple(types)[:MOST_TYPES], zone, False, price)
