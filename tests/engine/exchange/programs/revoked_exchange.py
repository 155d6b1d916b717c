"""Free a rank that waits for gradients of one that has failed, and average in the new world."""

from __future__ import annotations

import time

import numpy as np
from mpi4py import MPI

from tests.engine.exchange.programs.reference import make, means_of
from tests.engine.programs.world import found, rank, real, worlds, write_found
from workbench.engine.timing.mpi_calls import is_echo, watch

comm = make("auto", overlap=True)
means_of(comm, [np.ones(400_000, "f4")])
real.Barrier()
if rank == 0:
    time.sleep(0.3)
    worlds.revoke()
else:
    try:
        means_of(comm, [np.ones(400_000, "f4")])
    except MPI.Exception as error:
        found["echo"] = is_echo(error)
worlds.recover()
worlds.offer(0)
found["fresh"] = float(means_of(make("auto"), [np.full(400_000, rank + 1, "f4")])[0][0])
found["seconds"] = watch.seconds > 0.2

write_found()
