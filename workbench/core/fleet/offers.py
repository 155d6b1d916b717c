"""Compare offers with the requirements, and with the account's quotas."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import replace

from workbench.core.fleet.connection_limits import pair_gbits
from workbench.core.fleet.model import FleetWish, Needs, Offer
from workbench.core.fleet.suitability import collect_needs, is_suitable, refusal
from workbench.core.node.findings import Finding

_ENOUGH_GBITS = 10.0


def fits(needs: Needs, offer: Offer) -> bool:
    """Return whether a node of this type, in this zone, meets the requirements.

    A type that cannot carry the software, that slows down under load, or whose GPUs the image has
    no driver for, fits only if it is named.
    """
    return (
        offer.gpus >= needs.gpus
        and (not needs.gpu_memory or offer.gpu_memory >= needs.gpu_memory)
        and offer.memory >= needs.memory
        and offer.vcpus >= needs.vcpus
        and offer.network >= needs.network
        and (offer.type in needs.types if needs.types else is_suitable(offer))
        and (not needs.zones or offer.zone in needs.zones)
    )


def total(offer: Offer, nodes: int) -> float:
    """Return the $/h of so many nodes, with their disks and addresses."""
    return offer.hour * nodes


def rank_offers(offers: Iterable[Offer], needs: Needs, nodes: int) -> tuple[Offer, ...]:
    """Return the offers that fit, the best first.

    A single node exchanges nothing, so its price decides. Several nodes are as fast as the
    sustained exchange between a pair of them, whatever a burst can do: twice the rate is worth the
    square root of two in price, up to 10 Gbit/s per GPU or per node without GPUs. Offers beyond the
    account's quota come last.
    """
    fitting = [offer for offer in offers if fits(needs, offer)]
    return tuple(sorted(fitting, key=lambda offer: _rank(offer, nodes)))


def _rank(offer: Offer, nodes: int) -> tuple[bool, bool, float, float, str, str]:
    useful = min(pair_gbits(offer), _ENOUGH_GBITS * max(1, offer.gpus))
    unknown = nodes > 1 and not useful
    value = offer.price / math.sqrt(useful) if nodes > 1 and useful else offer.price
    short = bool(lacking_vcpus(offer, nodes))
    return short, unknown, value, offer.price, offer.type, offer.zone


def lacking_vcpus(offer: Offer, nodes: int) -> int:
    """Return how many vCPUs the quota lacks for so many nodes; 0 if none, or unknown."""
    return 0 if offer.quota is None else max(0, offer.vcpus * nodes - offer.quota)


def judge_quota(offer: Offer, nodes: int) -> Finding:
    """Return whether the account may start so many nodes of this type."""
    check = f"quota for {offer.type}"
    asked = offer.vcpus * nodes
    if offer.quota is None:
        return Finding(check, None, f"{asked} vCPUs are needed; the quota could not be read")
    quota = f'"{offer.quota_name}"' if offer.quota_name else f"the quota of {offer.type}"
    found = f"{asked} vCPUs are needed, and {offer.quota} are left of {quota}"
    if not lacking_vcpus(offer, nodes):
        return Finding(check, True, found)
    most = offer.quota // offer.vcpus
    lacking = _count(lacking_vcpus(offer, nodes), "vCPU")
    fewer = f", or ask for {_count(most, 'node')}" if most else ""
    return Finding(
        check,
        False,
        found,
        f"Raise {quota} by at least {lacking} in the provider's console{fewer}.",
    )


def why_not(wish: FleetWish, offers: Sequence[Offer]) -> str:
    """Return why no offer fits, with the remedy; empty if one does."""
    if why := refusal(wish, offers):
        return why
    needs = collect_needs(wish)
    return "" if any(fits(needs, offer) for offer in offers) else why_none(wish, offers)


def why_none(wish: FleetWish, offers: Sequence[Offer]) -> str:
    """Return why no offer fits, with the remedy: the one requirement that excludes all."""
    needs = collect_needs(wish)
    where = f" in {wish.region}" if wish.region else ""
    if not offers:
        return f"There are no offers{where}; choose another region."
    if needs != wish.needs and any(fits(wish.needs, offer) for offer in offers):
        return (
            f"No offer{where} that meets the requirements has {needs.memory:g} GiB of memory for "
            f"{_count(wish.slots, 'rank')} per node; request fewer with --slots."
        )
    eased = {
        f"has {needs.gpu_memory:g} GiB per GPU": replace(needs, gpu_memory=0.0),
        f"has {_count(needs.gpus, 'GPU')}": replace(needs, gpus=0, gpu_memory=0.0),
        f"has {needs.memory:g} GiB of memory": replace(needs, memory=0.0),
        f"has {needs.vcpus} vCPUs": replace(needs, vcpus=0),
        f"sustains {needs.network:g} Gbit/s": replace(needs, network=0.0),
        f"is of type {' or '.join(needs.types)}": replace(needs, types=()),
        f"is in zone {' or '.join(needs.zones)}": replace(needs, zones=()),
    }
    for lack, others in eased.items():
        if any(fits(others, offer) for offer in offers):
            return (
                f"No offer{where} that meets the other requirements {lack}; ease that requirement."
            )
    return f"No offer{where} meets all requirements; ease one of them."


def _count(number: int, thing: str) -> str:
    return f"{number} {thing}{'s' if number != 1 else ''}"
