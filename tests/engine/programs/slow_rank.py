"""Exchange an array in each step; rank 1 comes late: ``… [LONGER [barrier]]``."""

from __future__ import annotations

import time

import numpy as np
from mpi4py import MPI

from tests.engine.programs.stepping import LONGER, comm, train
from tests.engine.programs.world import arguments, found, rank, write_found

gradients = np.ones(1000, np.float32)
has_barrier = "barrier" in arguments


def step() -> None:
    time.sleep(LONGER * (0.03 if rank == 1 else 0.005))
    if has_barrier:
        comm.Barrier()
    comm.Allreduce(MPI.IN_PLACE, gradients)


found.update(train(60, step))

write_found()
