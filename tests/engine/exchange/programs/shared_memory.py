"""Make memory that ranks share, and have ranks find that there is none."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, Never

import numpy as np

from tests.engine.exchange.programs.reference import comm_world, make, means_of
from tests.engine.programs.world import found, rank, size, write_found
from workbench.engine.exchange import shared_memory
from workbench.engine.exchange.shared_memory import SharedMemory


def made() -> Any:
    try:
        return SharedMemory(comm_world, range(size))
    except OSError as error:
        return str(error)


def files() -> set[str]:
    return {name for name in os.listdir("/dev/shm") if "workbench" in name}


before = files()
memory = made()
found["nameless"] = "memfd:workbench (deleted)" in Path("/proc/self/maps").read_text()
found["no file"] = files() == before
memory._room[rank] = rank + 1
comm_world.Barrier()
found["seen"] = [int(memory._room[r].ravel()[-1]) for r in range(size)]

make_, open_ = shared_memory._create_memory, shared_memory._open_memory


def lacks(nbytes: int) -> Never:
    raise OSError("no room")


def elsewhere(path: Path, nbytes: int, mark: bytes) -> Any:
    return open_(path, nbytes, b"another's" if rank == size - 1 else mark)


shared_memory._create_memory = lacks
found["no memory"] = made()
shared_memory._create_memory = make_
shared_memory._open_memory = elsewhere
found["another's"] = made()
found["mean"] = float(means_of(make("auto"), [np.full(400_000, rank, "f4")])[0][-1])

write_found()
