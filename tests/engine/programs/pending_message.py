"""Leave a message of a failed cell unanswered, and receive one of the next."""

from __future__ import annotations

from tests.engine.programs.world import found, rank, real, worlds, write_found

comm = worlds.offer(0)
if rank == 0:
    comm.send("left over", dest=1, tag=1)
real.Barrier()
worlds.recover()
comm = worlds.offer(0)
if rank == 0:
    comm.send("fresh", dest=1, tag=1)
if rank == 1:
    found["received"] = comm.recv(source=0, tag=1)

write_found()
