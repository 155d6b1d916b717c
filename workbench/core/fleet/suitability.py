"""Decide which types can run ranks at all, whatever else is required."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from workbench.core.fleet.model import FleetWish, Needs, Offer

# With the CUDA libraries that CuPy calls: those of an image may have another version.
CUDA = ("cupy-cuda12x[ctk]>=14", "nvidia-nccl-cu12")

# With less, installing and starting the packages of Jupyter, Open MPI and a framework runs out of
# memory, or takes longer than a node is awaited.
LEAST_VCPUS = 2
LEAST_MEMORY = 4.0
# GiB per rank beside its data: Python, NumPy, MPI and a framework.
RANK_MEMORY = 1.0
FLOOR = f"{LEAST_VCPUS} vCPUs, {LEAST_MEMORY:g} GiB and {RANK_MEMORY:g} GiB a rank"
LISTED = (
    f"Listed are types with at least {FLOOR}; types that slow down under constant load, and those "
    "of many years ago, are listed only if you name them."
)


def ranks_of(offer: Offer) -> int:
    """Return the ranks of a node: one per GPU, or one per core without GPUs."""
    return offer.slots or offer.gpus or max(1, offer.vcpus // 2)


def carries(offer: Offer, slots: int = 0) -> bool:
    """Return whether a node has enough for the software, and for its ranks.

    Args:
        slots: Ranks that it should carry; 0 for one per GPU or core.
    """
    ranks = slots or ranks_of(offer)
    return offer.vcpus >= LEAST_VCPUS and offer.memory >= max(LEAST_MEMORY, RANK_MEMORY * ranks)


def is_suitable(offer: Offer) -> bool:
    """Return whether a type may be bought that the user did not name."""
    return carries(offer) and offer.sustained >= 1.0 and offer.has_driver and offer.is_current


def collect_needs(wish: FleetWish) -> Needs:
    """Return the requirements on each node, including those of the software and its ranks."""
    memory = max(wish.needs.memory, RANK_MEMORY * wish.slots)
    return replace(wish.needs, memory=memory)


def refusal(wish: FleetWish, offers: Iterable[Offer]) -> str:
    """Return why a type that the user named cannot be used, with the remedy; empty if all can."""
    for offer in offers:
        if offer.type not in wish.needs.types:
            continue
        if not carries(offer, wish.slots):
            return (
                f"{offer.type} has {offer.vcpus} vCPUs and {offer.memory:g} GiB, and a node needs "
                f"at least {FLOOR} for its software; name a larger type, or leave it out."
            )
        if not offer.has_driver and wish.place.limits_drivers(wish):
            return (
                f"The image has no driver for {_gpu(offer)} of {offer.type}; name a "
                "type with whole NVIDIA GPUs of the Turing generation or newer (T4, A10G, L4, "
                "A100, H100), or an image that has the driver."
            )
    return ""


def slowing(offer: Offer) -> str:
    """Return the warning that a type slows down; empty if it does not."""
    if offer.sustained >= 1.0:
        return ""
    return (
        f"{offer.type} slows down to {100 * offer.sustained:g} % of its vCPUs when they have "
        "nothing saved up, as in training; other types compute at full speed all the time."
    )


def _gpu(offer: Offer) -> str:
    return f"the {offer.gpu}" if offer.gpu else "the accelerators"


def has_cuda(distributions: Iterable[tuple[str, str]]) -> bool:
    """Return whether one of the distributions (name and version) computes on NVIDIA's GPUs.

    PyTorch's CPU-only wheels have that in their version: ``2.13.0+cpu``.
    """
    return any(
        name.lower().startswith("cupy")
        or (name.lower() == "torch" and not version.endswith("+cpu"))
        for name, version in distributions
    )


def without_cuda(wish: FleetWish, offer: Offer, here: bool, how: str) -> str:
    """Return a sentence if GPUs of nodes could not be used, with the remedy; else empty.

    Args:
        offer: The offer that would be bought first.
        here: Whether this computer's environment computes on GPUs; nodes get the same packages.
        how: The option that installs the packages nevertheless, as ``add --cuda``.
    """
    if not offer.gpus or wish.setting("cuda", False) or here:
        return ""
    return (
        f"{offer.type} has GPUs, and ranks could not use them: nodes get the packages of this "
        f"environment, which has neither CuPy nor PyTorch for CUDA; {how} to install "
        f"{' and '.join(CUDA)} on the nodes."
    )
