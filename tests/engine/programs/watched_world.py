"""Call every method of a watched world: with arrays, with objects, and to make others of it."""

from __future__ import annotations

from typing import Any

import numpy as np
from mpi4py import MPI

from tests.engine.programs.world import found, rank, real, size, worlds, write_found
from workbench.engine.timing.mpi_calls import watch


def collectives() -> dict[str, Any]:
    """What collective calls and a message give."""
    found: dict[str, Any] = {}
    comm = worlds.offer(0)
    assert MPI.COMM_WORLD is comm
    assert comm is not real
    mine = np.full(3, rank + 1.0)

    total = np.empty(3)
    comm.Allreduce(mine, total)
    found["Allreduce"] = total.tolist()

    gathered = np.empty((size, 3))
    comm.Allgather(mine, gathered)
    found["Allgather"] = gathered[:, 0].tolist()

    shared = np.full(2, 7.0) if rank == 0 else np.zeros(2)
    comm.Bcast(shared, root=0)
    found["Bcast"] = shared.tolist()

    reduced = np.zeros(3)
    comm.Reduce(mine, reduced, op=MPI.MAX, root=size - 1)
    found["Reduce"] = reduced.tolist()

    part = np.empty(1)
    comm.Scatter(np.arange(size, dtype=float) if rank == 0 else None, part, root=0)
    found["Scatter"] = part.tolist()

    swapped = np.empty(size)
    comm.Alltoall(np.arange(size, dtype=float) + 10 * rank, swapped)
    found["Alltoall"] = swapped.tolist()

    right, left = (rank + 1) % size, (rank - 1) % size
    received = np.empty(1)
    comm.Sendrecv(np.array([float(rank)]), right, recvbuf=received, source=left)
    found["Sendrecv"] = received.tolist()

    comm.Barrier()
    comm.barrier()
    found["in"] = watch.call
    return found


def objects() -> dict[str, Any]:
    """What objects are where they have come to."""
    found: dict[str, Any] = {}
    comm = worlds.offer(0)
    thing = {"rank": rank, "list": [1, (2, None)]}
    found["gather"] = comm.gather(thing, root=0)
    found["allgather"] = comm.allgather(rank)
    found["bcast"] = comm.bcast({"from": 0} if rank == 0 else None, root=0)
    found["allreduce"] = comm.allreduce("ab"[rank % 2])
    sums = [MPI.Intracomm.allreduce(real, 0.1 * (rank + 1)), comm.allreduce(0.1 * (rank + 1))]
    found["same sum"] = sums[0] == sums[1]
    found["highest"] = comm.allreduce((rank % 3, rank), op=MPI.MAXLOC)
    found["reduce"] = comm.reduce("ab"[rank % 2], root=size - 1)
    found["scan"] = [comm.scan("ab"[rank % 2]), comm.exscan("ab"[rank % 2])]
    found["scatter"] = comm.scatter([f"for {n}" for n in range(size)] if rank == 0 else None)
    if size > 1:
        if rank == 0:
            comm.send({"to": 1}, dest=1, tag=5)
        if rank == 1:
            found["recv"] = comm.recv(source=0, tag=5)
    return found


def descendants() -> dict[str, Any]:
    """The kinds, sizes and ranks of the communicators that are made from it."""
    found: dict[str, Any] = {}
    comm = worlds.offer(0)
    children = {
        "Split": comm.Split(rank % 2, rank),
        "Dup": comm.Dup(),
        "Split_type": comm.Split_type(MPI.COMM_TYPE_SHARED),
        "Create": comm.Create(comm.Get_group()),
        "Clone": comm.Clone(),
        "grandchild": comm.Split(0, -rank).Dup(),
    }
    for name, child in children.items():
        found[name] = [type(child).__name__, child.size, child.rank, child.allreduce(1)]
    found["undefined"] = comm.Split(MPI.UNDEFINED) == MPI.COMM_NULL
    return found


found["collectives"] = collectives()
found["objects"] = objects()
found["descendants"] = descendants()

write_found()
