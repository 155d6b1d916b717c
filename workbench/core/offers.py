"""Compare what could be lent with what is needed, and with what the account may start."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import replace

from workbench.core.diagnosis import Finding
from workbench.core.fleet import FleetWish, Needs, Offer

# The vCPU quotas of EC2's spot requests; one quota covers all families in its row.
_CLASSES = {
    "standard": ("a", "c", "d", "h", "i", "im", "is", "m", "r", "t", "z"),
    "G and VT": ("g", "gr", "vt"),
    "P": ("p",),
    "X": ("x",),
    "F": ("f",),
    "Inf": ("inf",),
    "Trn": ("trn",),
    "DL": ("dl",),
    "HPC": ("hpc",),
    "high memory": ("u",),
}
_ENOUGH_GBITS = 10.0


def quota_class(type_name: str) -> str:
    """Return the vCPU quota that a type counts against, as ``G and VT``."""
    found = re.match(r"[a-z]+", type_name)
    family = found[0] if found else ""
    for name, families in _CLASSES.items():
        if family in families:
            return name
    return family or "unknown"


def fits(needs: Needs, offer: Offer) -> bool:
    """Tell whether a node of this type, in this zone, has all that is needed."""
    return (
        offer.gpus >= needs.gpus
        and (not needs.gpu_memory or offer.gpu_memory >= needs.gpu_memory)
        and offer.memory >= needs.memory
        and offer.vcpus >= needs.vcpus
        and offer.network >= needs.network
        and (not needs.types or offer.type in needs.types)
        and (not needs.zones or offer.zone in needs.zones)
    )


def total(price: float, nodes: int, extra: float = 0.0) -> float:
    """Return $/h of all nodes.

    Args:
        price: $/h of one.
        extra: $/h of one node beside that: its disk.
    """
    return (price + extra) * nodes


def ranked(offers: Iterable[Offer], needs: Needs, nodes: int) -> tuple[Offer, ...]:
    """Return the offers that fit, the best first.

    One node alone has nobody to talk to, so its price decides. Several are as fast as what their
    network sustains, whatever it can do for a moment: twice of it is worth the square root of two
    in price, up to 10 Gbit/s for each GPU or for a node without. Where the account's quota is
    known not to reach, an offer goes last.
    """
    fitting = [offer for offer in offers if fits(needs, offer)]
    return tuple(sorted(fitting, key=lambda offer: _rank(offer, nodes)))


def _rank(offer: Offer, nodes: int) -> tuple[bool, bool, float, float, str, str]:
    useful = min(offer.network, _ENOUGH_GBITS * max(1, offer.gpus))
    unknown = nodes > 1 and not useful
    value = offer.price / math.sqrt(useful) if nodes > 1 and useful else offer.price
    short = bool(lacking_vcpus(offer, nodes))
    return short, unknown, value, offer.price, offer.type, offer.zone


def lacking_vcpus(offer: Offer, nodes: int) -> int:
    """Return how many vCPUs the quota lacks for that many nodes; 0 when enough or unknown."""
    return 0 if offer.quota is None else max(0, offer.vcpus * nodes - offer.quota)


def judge_quota(offer: Offer, nodes: int) -> Finding:
    """Judge whether the account may start that many nodes of this type."""
    check = f"quota for {offer.type}"
    asked = offer.vcpus * nodes
    name = quota_class(offer.type)
    if offer.quota is None:
        return Finding(check, None, f"{asked} vCPUs are needed; the quota could not be read")
    found = f"{asked} vCPUs are needed, {offer.quota} of class {name} may still be started"
    if not lacking_vcpus(offer, nodes):
        return Finding(check, True, found)
    most = offer.quota // offer.vcpus
    fewer = f", or ask for {_count(most, 'node')}" if most else ""
    return Finding(
        check,
        False,
        found,
        f'Ask for {asked} vCPUs of "All {name} Spot Instance Requests" in the Service Quotas '
        f"console{fewer}.",
    )


def why_none(wish: FleetWish, offers: Sequence[Offer]) -> str:
    """Return why no offer does, with the remedy: the one need that, eased, lets some fit."""
    needs = wish.needs
    where = f" in {wish.region}" if wish.region else ""
    if not offers:
        return f"Nothing is on offer{where}; ask for less, or choose another region."
    eased = {
        f"has {needs.gpu_memory:g} GiB a GPU": replace(needs, gpu_memory=0.0),
        f"has {_count(needs.gpus, 'GPU')}": replace(needs, gpus=0, gpu_memory=0.0),
        f"has {needs.memory:g} GiB of memory": replace(needs, memory=0.0),
        f"has {needs.vcpus} vCPUs": replace(needs, vcpus=0),
        f"sustains {needs.network:g} Gbit/s": replace(needs, network=0.0),
        f"is of type {' or '.join(needs.types)}": replace(needs, types=()),
        f"is in zone {' or '.join(needs.zones)}": replace(needs, zones=()),
    }
    for lack, others in eased.items():
        if any(fits(others, offer) for offer in offers):
            return f"Of what else would do{where}, nothing {lack}; ask for less of that."
    return f"Nothing on offer{where} has all that is needed; ask for less."


def _count(number: int, thing: str) -> str:
    return f"{number} {thing}{'s' if number != 1 else ''}"
