"""Free ranks that are blocked in a world or a child of it, and recover."""

from __future__ import annotations

import threading
import time

from mpi4py import MPI

from tests.engine.programs.world import arguments, found, rank, real, worlds, write_found
from workbench.engine.timing.mpi_calls import is_echo, watch
from workbench.errors import StaleCommunicator

comm = worlds.offer(0)
child = comm.Split(0, rank).Dup()
real.Barrier()  # Open MPI crashes if a communicator is revoked while another rank makes it
blocked_in = {"world": comm, "child": child}[arguments[0]]
blocked_in.allreduce(1)  # from the second one on, mpi4py's own waits in another communicator
real.Barrier()  # or one that is late is freed from the first

if rank == 0:  # fails, and never enters the call that the others are in
    time.sleep(0.3)
    worlds.revoke()
else:
    # Each is freed by its own helper thread, as the channel does it.
    helper = threading.Timer(0.3, worlds.revoke)
    helper.start()
    try:
        blocked_in.allreduce(1)
    except MPI.Exception as error:
        found["echo"] = is_echo(error)
        found["in"] = watch.call
    helper.join()  # late, it would revoke the recovered world

found["revoked"] = [worlds.revoked]
found["recovered"] = worlds.recover("fit")
found["revoked"].append(worlds.revoked)
fresh = worlds.offer(0)
found["fresh"] = [fresh is comm, fresh.size, fresh.rank, fresh.allreduce(1), comm.allreduce(2)]
try:
    child.Barrier()
except StaleCommunicator as error:
    found["stale"] = str(error)
found["still asked"] = [child.size, type(comm).__name__, comm.Dup().allreduce(1)]
real.Barrier()  # as the supervisor does: no rank is in a call of a run that is over
found["second"] = [worlds.recover(), worlds.offer(0).allreduce(1), comm.allreduce(1)]

write_found()
