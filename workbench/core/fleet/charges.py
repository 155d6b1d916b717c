"""The charges beside machines: disks, public addresses and data transfer."""

from __future__ import annotations

from workbench.core.fleet.cost import ADDRESS_PRICE, HOUR, OUT_PRICE, REGION_PRICE, ZONE_PRICE
from workbench.core.fleet.model import FleetWish, Offer, Provider
from workbench.core.fleet.ssh_ingress import is_public
from workbench.core.node.staging import is_bucket
from workbench.core.units import dollars, hourly

ALL_BILLED = "all nodes, with disks and addresses"


def ring_price(nbytes: float, seconds: float, ranks: int) -> float:
    """Return $/h of an allreduce whose ring goes from one zone to another and back.

    Each edge carries 2(p−1)/p of the gradients a step (Patarasuk & Yuan 2009), two edges cross,
    and each is billed where it is sent and where it is received.

    Args:
        nbytes: Of the gradients.
        seconds: Of a step.
    """
    if ranks < 2 or seconds <= 0:
        return 0.0
    edge = 2 * (ranks - 1) / ranks * nbytes
    return 2 * edge / 1e9 * 2 * ZONE_PRICE * HOUR / seconds


def zones_price(training: float = 0.0) -> str:
    """Return what traffic between two zones costs, as a part of a sentence.

    Args:
        training: $/h of the training that was measured; 0 where none was.
    """
    price = f"traffic between zones costs {dollars(ZONE_PRICE)}/GB on each side"
    return (
        f"{price}, an estimated {hourly(training)} for the latest training" if training else price
    )


def elsewhere(nodes: int, training: float = 0.0) -> str:
    """Return how a person lets nodes come from another zone than that of the others.

    Args:
        nodes: How many there are to be.
        training: As of ``zones_price``.
    """
    return (
        f"allow other zones with `workbench resize --nodes {nodes} --across-zones`, where "
        f"{zones_price(training)}"
    )


def billed_beside(offer: Offer, nodes: int) -> str:
    """Return what is in the price of so many nodes beside the machines, as a part of a sentence."""
    address = ADDRESS_PRICE if offer.has_address else 0.0
    disks = f"{hourly((offer.beside - address) * nodes)} for their disks"
    return f"{disks} and {hourly(address * nodes)} for public addresses" if address else disks


def here_price(fleet: FleetWish) -> float:
    """Return $ for a GB that comes from these nodes to this computer.

    It is billed where this computer reaches them by their public addresses. The first 100 GB of
    an account's month are free, and count all the same: nobody here knows what else it sends.
    """
    is_far = fleet.provider is Provider.EC2 and bool(fleet.ssh_from) and is_public([fleet.ssh_from])
    return OUT_PRICE if is_far else 0.0


def traffic(fleet: FleetWish) -> list[str]:
    """Return, a sentence each, what traffic of these nodes is billed beside their price."""
    if fleet.provider is not Provider.EC2:
        return []
    said = []
    if is_bucket(fleet.output):
        said.append(
            "What is written to a bucket of their region is free to send; to one of another "
            f"region it costs {dollars(REGION_PRICE)}/GB."
        )
    elif fleet.output:
        said.append(
            f"Files that come back to {fleet.output} cost {dollars(OUT_PRICE)}/GB where this "
            "computer is outside AWS."
        )
    if fleet.across_zones:
        zones = zones_price()
        said.append(f"{zones[0].upper()}{zones[1:]}.")
    return said
