"""Let one rank free another that waits for it."""

from __future__ import annotations

import time

from mpi4py import MPI

from tests.engine.programs.world import found, rank, worlds, write_found
from workbench.engine.timing.mpi_calls import is_echo

comm = worlds.offer(0)
if rank == 0:
    time.sleep(0.3)
    worlds.revoke()
else:
    try:
        comm.Barrier()
    except MPI.Exception as error:
        found["echo"] = is_echo(error)
worlds.recover()
found["fresh"] = worlds.offer(0).allreduce(1)

write_found()
