"""Exchange three arrays in each step; how late a rank comes is its number."""

from __future__ import annotations

import time

import numpy as np
from mpi4py import MPI

from tests.engine.programs.stepping import LONGER, comm, train
from tests.engine.programs.world import found, rank, write_found

arrays = [np.ones(n, np.float32) for n in (10, 200, 3000)]


def step() -> None:
    time.sleep(LONGER * 0.02 * (1 + rank))
    for one in arrays:
        comm.Allreduce(MPI.IN_PLACE, one)


found.update(train(60, step))
found["met"] = comm._meetings._met

write_found()
