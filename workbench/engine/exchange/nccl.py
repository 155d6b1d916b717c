"""Find out whether ranks can exchange by NCCL, which CuPy brings."""

from __future__ import annotations

from typing import Any


def nccl_obstacle(comm: Any, gpu: int | None) -> str:
    """Return why the ranks cannot exchange by NCCL; empty if they can. Collective.

    Args:
        gpu: The number of this rank's GPU; None without one.
    """
    own = b""
    if gpu is not None and has_nccl():
        import cupy

        own = bytes(cupy.cuda.runtime.getDeviceProperties(gpu)["uuid"])
    found = comm.allgather((gpu is not None, own))
    if not all(has_gpu for has_gpu, _ in found):
        return "not every rank has a GPU"
    if not all(uuid for _, uuid in found):
        return "not every rank has NCCL"
    shared = len(found) - len(set(found))
    return "several ranks share a GPU, which NCCL does not support" if shared else ""


def has_nccl() -> bool:
    """Return whether NCCL can be used here."""
    try:
        from cupy.cuda import nccl
    except ImportError:
        return False
    return bool(nccl.available)
