"""Memory that ranks share leaves nothing behind, and is done without where there is none."""

from __future__ import annotations

import pytest

from .contract import READY

pytestmark = pytest.mark.mpi

MADE = (
    READY
    + """
import os
from workbench.engine.exchange import shared_memory
from workbench.engine.exchange.shared_memory import SharedMemory

def made():
    try:
        return SharedMemory(comm_world, range(size))
    except OSError as error:
        return str(error)

before = {name for name in os.listdir("/dev/shm") if "workbench" in name}
memory = made()
maps = open("/proc/self/maps").read()
found["nameless"] = "memfd:workbench (deleted)" in maps
found["no file"] = {name for name in os.listdir("/dev/shm") if "workbench" in name} == before
memory._room[rank] = rank + 1
comm_world.Barrier()
found["seen"] = [int(memory._room[r].ravel()[-1]) for r in range(size)]

make_, open_ = shared_memory._made, shared_memory._opened
def lacks(nbytes):
    raise OSError("no room")
shared_memory._made = lacks
found["no memory"] = made()
shared_memory._made = make_
def elsewhere(path, nbytes, mark):
    return open_(path, nbytes, b"another's" if rank == size - 1 else mark)
shared_memory._opened = elsewhere
found["another's"] = made()
found["mean"] = float(means_of(make("auto"), [np.full(400_000, rank, "f4")])[0][-1])
"""
)


@pytest.mark.parametrize("size", [2, 3])
def test_shared_memory_has_no_name_and_all_ranks_know_where_there_is_none(on_ranks, size) -> None:
    all_found = on_ranks(MADE, size)

    for mine in all_found:
        assert mine["nameless"]
        assert mine["no file"]
        assert mine["seen"] == [rank + 1 for rank in range(size)]
        assert "cannot be shared (no room)" in mine["no memory"]
        assert "is not what rank 0 shares" in mine["another's"]
        assert mine["mean"] == (size - 1) / 2
        assert mine == all_found[0]
