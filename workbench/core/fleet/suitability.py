"""Decide which types can run ranks at all, whatever else is required."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from workbench.core.fleet.images import NAMES
from workbench.core.fleet.model import FleetWish, Needs, Offer

# With less, installing and starting Jupyter's, Open MPI's and a framework's Python packages runs
# out of memory, or takes longer than a node is waited for.
LEAST_VCPUS = 2
LEAST_MEMORY = 4.0
# GiB that a rank takes beside its data: Python, NumPy, MPI and a framework.
RANK_MEMORY = 1.0
FLOOR = f"{LEAST_VCPUS} vCPUs, {LEAST_MEMORY:g} GiB and {RANK_MEMORY:g} GiB a rank"
LISTED = (
    f"Listed are types with at least {FLOOR}; none that slows down under constant load, unless "
    "you name it."
)


def ranks_of(offer: Offer) -> int:
    """Return the ranks of a node: one a GPU, or one a core where there is none."""
    return offer.slots or offer.gpus or max(1, offer.vcpus // 2)


def carries(offer: Offer, slots: int = 0) -> bool:
    """Tell whether a node has enough for the software, and for its ranks.

    Args:
        slots: Ranks that it is to carry; 0 for as many as it has GPUs or cores.
    """
    ranks = slots or ranks_of(offer)
    return offer.vcpus >= LEAST_VCPUS and offer.memory >= max(LEAST_MEMORY, RANK_MEMORY * ranks)


def is_suitable(offer: Offer) -> bool:
    """Tell whether a type may be bought that nobody named."""
    return carries(offer) and offer.sustained >= 1.0 and offer.has_driver


def required(wish: FleetWish) -> Needs:
    """Return what each node must have at least for what is needed, and for its ranks."""
    memory = max(wish.needs.memory, RANK_MEMORY * wish.slots)
    return replace(wish.needs, memory=memory)


def refusal(wish: FleetWish, offers: Iterable[Offer]) -> str:
    """Return why a type that a person named cannot be had, with the remedy; empty if all can."""
    for offer in offers:
        if offer.type not in wish.needs.types:
            continue
        if not carries(offer, wish.slots):
            return (
                f"{offer.type} has {offer.vcpus} vCPUs and {offer.memory:g} GiB, and a node needs "
                f"at least {FLOOR} for its software; name a larger type, or leave it out."
            )
        if not offer.has_driver and wish.image in ("", *NAMES):
            return (
                f"The image has no driver for {_gpu(offer)} of {offer.type}; name a "
                "type with whole NVIDIA GPUs of the Turing generation or newer (T4, A10G, L4, "
                "A100, H100), or an image that has the driver."
            )
    return ""


def slowing(offer: Offer) -> str:
    """Return the warning that a type slows down; empty for one that does not."""
    if offer.sustained >= 1.0:
        return ""
    return (
        f"{offer.type} slows down to {100 * offer.sustained:g} % of its vCPUs when they have "
        "nothing saved up, as in training; other types compute at full speed all the time."
    )


def _gpu(offer: Offer) -> str:
    return f"the {offer.gpu}" if offer.gpu else "the accelerators"
