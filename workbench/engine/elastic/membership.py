"""Return this process's rank and the number of ranks, for whichever launcher started it."""

from __future__ import annotations

import os
import sys

from workbench.engine.run_context import current


def membership() -> tuple[int, int]:
    """Return rank and world size: of the run, of PyTorch, of torchrun, of MPI, or 0 of 1."""
    if current() is None:
        distributed = sys.modules.get("torch.distributed")
        if distributed is not None and distributed.is_available() and distributed.is_initialized():
            return distributed.get_rank(), distributed.get_world_size()
        rank, ranks = os.environ.get("RANK", ""), os.environ.get("WORLD_SIZE", "")
        if rank.isdecimal() and ranks.isdecimal():
            return int(rank), int(ranks)
    mpi = sys.modules.get("mpi4py.MPI")
    if mpi is not None and mpi.Is_initialized() and not mpi.Is_finalized():
        return int(mpi.COMM_WORLD.rank), int(mpi.COMM_WORLD.size)
    return 0, 1
