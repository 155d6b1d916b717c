"""Compare offers with the requirements and the quotas, and the speeds of their GPUs."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import replace

from workbench.core.fleet.connection_limits import pair_gbits
from workbench.core.fleet.model import FleetWish, Needs, Offer
from workbench.core.node.findings import Finding

# Single-precision TFLOP/s and GB/s of memory, of one GPU, by vendors' data sheets. A K80 and an M60
# have two GPUs; offers count each of them.
_SHEETS = {
    "K80": (4.1, 240),
    "M60": (4.8, 160),
    "P4": (5.5, 192),
    "P100": (9.3, 732),
    "V100": (15.7, 900),
    "T4": (8.1, 320),
    "T4G": (8.1, 320),
    "A10G": (31.2, 600),
    "L4": (30.3, 300),
    "L40S": (91.6, 864),
    "A100": (19.5, 1555),
    "H100": (66.9, 3350),
    "H200": (66.9, 4800),
}

# Older than Turing, which the open kernel modules of the public GPU image do not support: README of
# NVIDIA's open-gpu-kernel-modules; a P3 fails with that image (aws-parallelcluster issue 6014).
_OLDER = ("K520", "K80", "M60", "P4", "P100", "V100")


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


def is_driven(maker: str, gpu: str) -> bool:
    """Return whether the driver of the public GPU image supports a GPU: NVIDIA's, from Turing on.

    ===========  ===============================================================
    generation   GPUs, as DescribeInstanceTypes names them
    ===========  ===============================================================
    Kepler       K520 (G2), K80 (P2): not driven
    Maxwell      M60 (G3): not driven
    Volta        V100 (P3): not driven
    Turing       T4 (G4dn), T4g (G5g)
    Ampere       A10G (G5), A100 (P4)
    Ada          L4 (G6), L40S (G6e)
    Hopper       H100, H200 (P5)
    Blackwell    B200, B300 (P6), RTX PRO 4500, RTX PRO Server 6000 (G7)
    ===========  ===============================================================
    """
    return maker.upper() == "NVIDIA" and gpu.upper() not in _OLDER


def relative_speed(gpu: str, measured: str) -> float | None:
    """Return a GPU's speed relative to the measured one; None if unknown.

    It is the geometric mean of compute and memory bandwidth: networks are limited by either. An
    empty name is a CPU core; all of them count as equal.
    """
    if gpu == measured:
        return 1.0
    one, other = _find_sheet(gpu), _find_sheet(measured)
    if one is None or other is None:
        return None
    return math.sqrt(one[0] / other[0] * one[1] / other[1])


def _find_sheet(gpu: str) -> tuple[float, float] | None:
    for word in re.findall(r"[A-Z]+\d+[A-Z]*", gpu.upper()):
        if word in _SHEETS:
            return _SHEETS[word]
    return None
