"""The charges beside machines: disks, public addresses and data transfer."""

from __future__ import annotations

from workbench.core.fleet.cost import ADDRESS_PRICE, HOUR, ZONE_PRICE
from workbench.core.fleet.model import Offer
from workbench.core.units import dollars, hourly

ALL_BILLED = "all nodes, with disks and addresses"


def ring_price(nbytes: float, seconds: float, ranks: int) -> float:
    """Return the $/h of an allreduce whose ring crosses from one zone to another and back.

    Each edge carries 2(p−1)/p of the gradients per step (Patarasuk & Yuan 2009), two edges cross,
    and each is billed to both its sender and its receiver.

    Args:
        nbytes: Size of the gradients.
        seconds: Duration of a step.
    """
    if ranks < 2 or seconds <= 0:
        return 0.0
    edge = 2 * (ranks - 1) / ranks * nbytes
    return 2 * edge / 1e9 * 2 * ZONE_PRICE * HOUR / seconds


def zones_price(training: float = 0.0) -> str:
    """Return the price of traffic between two zones, as part of a sentence.

    Args:
        training: Measured $/h of the training's traffic; 0 if it was not measured.
    """
    price = f"traffic between zones costs {dollars(ZONE_PRICE)}/GB on each side"
    return (
        f"{price}, an estimated {hourly(training)} for the latest training" if training else price
    )


def elsewhere(nodes: int, training: float = 0.0) -> str:
    """Return how to allow nodes in another zone than that of the others, as part of a sentence.

    Args:
        nodes: The requested number of nodes.
        training: See ``zones_price``.
    """
    return (
        f"allow other zones with `workbench resize --nodes {nodes} --across-zones`, where "
        f"{zones_price(training)}"
    )


def extra_charges(offer: Offer, nodes: int) -> str:
    """Return what the price of nodes contains beside the machines, as part of a sentence."""
    address = ADDRESS_PRICE if offer.has_address else 0.0
    disks = f"{hourly((offer.extra_price - address) * nodes)} for their disks"
    return f"{disks} and {hourly(address * nodes)} for public addresses" if address else disks
