"""Exchange on ranks whose calls differ but in their order on each communicator."""

from __future__ import annotations

import numpy as np
from mpi4py import MPI

from tests.engine.programs.stepping import comm, train
from tests.engine.programs.world import found, rank, write_found

pair = comm.Split(rank // 2, rank)
everyone = comm.Dup()
first = np.ones(4)


def step() -> None:
    if rank < 2:
        pair.Allreduce(MPI.IN_PLACE, first.copy())
    comm.Allreduce(MPI.IN_PLACE, first.copy())
    if rank >= 2:
        pair.Allreduce(MPI.IN_PLACE, first.copy())


if rank == 3:  # has no steps at all, but is in every exchange
    for _ in range(300):
        comm.Allreduce(MPI.IN_PLACE, first.copy())
        pair.Allreduce(MPI.IN_PLACE, first.copy())
else:
    found.update(train(300, step))
for _ in range(40):
    everyone.Allreduce(MPI.IN_PLACE, first.copy())
found["sum"] = comm.allreduce(1)
found["met"] = [c._meetings._met for c in (comm, pair, everyone)]
pair.Free()

write_found()
