"""Decide whether ranks can compute on GPUs, from the packages of an environment."""

from __future__ import annotations

from collections.abc import Iterable

from workbench.core.fleet.model import FleetWish, Offer

# With the CUDA libraries that CuPy calls: those of an image may have another version.
CUDA = ("cupy-cuda12x[ctk]>=14", "nvidia-nccl-cu12")


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
