"""Add up one array over all ranks in several ways, in turn.

Arguments: bytes, rounds, ways, and the address and port of rank 0 for gloo. Rank 0 writes what it
found.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable

import numpy
from mpi4py import MPI

FOUND = "found: "
WORLD = MPI.COMM_WORLD


def ours(array: numpy.ndarray) -> Callable[[], None]:
    import workbench

    comm = workbench.create_communicator(overlap=False)
    gradients, shapes = [array], [array.shape]
    return lambda: comm.mean(["/array"], gradients, shapes) and None


def library(array: numpy.ndarray) -> Callable[[], None]:
    return lambda: WORLD.Allreduce(MPI.IN_PLACE, array)


def naive(array: numpy.ndarray) -> Callable[[], None]:
    import chainermn

    comm = chainermn.create_communicator("naive")
    return lambda: comm._multi_node_mean(None, array)


def gloo(array: numpy.ndarray) -> Callable[[], None]:
    import torch
    import torch.distributed as dist

    dist.init_process_group(
        "gloo", init_method=f"tcp://{sys.argv[4]}", rank=WORLD.rank, world_size=WORLD.size
    )
    tensor = torch.from_numpy(array)
    return lambda: dist.all_reduce(tensor)


WAYS = {"ours": ours, "MPI's default": library, "naive": naive, "gloo": gloo}


def main() -> None:
    nbytes, rounds = int(float(sys.argv[1])), int(sys.argv[2])
    ways = {name: WAYS[name](numpy.ones(nbytes // 4, "f4")) for name in sys.argv[3].split(",")}
    found: dict[str, list[float]] = {name: [] for name in ways}
    for number in range(rounds + 1):
        for name, exchange in ways.items():
            WORLD.Barrier()
            start = time.perf_counter()
            exchange()
            took = WORLD.allreduce(time.perf_counter() - start, MPI.MAX)
            if number:  # the first one warms up
                found[name].append(took)
    if WORLD.rank == 0:
        print(FOUND + json.dumps({"rank": 0, **found}), flush=True)


if __name__ == "__main__":
    main()
