"""Add up arrays of several sizes over all ranks in several ways, in turn and in both orders.

A turn is a block of exchanges. A shaped link lets some bytes pass at once after each pause. Other
bytes use that up before each block, whatever the way before it left, and the first exchanges of
a block are not timed.

Arguments: sizes in bytes, ways, seconds for each size, and the address and port of rank 0 for gloo.
Rank 0 writes a line for each size.
"""

from __future__ import annotations

import json
import math
import sys
import time
from collections.abc import Callable

import numpy
from mpi4py import MPI

import workbench

FOUND = "found: "
WORLD = MPI.COMM_WORLD
LEAST, MOST = 4, 60
# Bytes of a block before it is timed and while it is, and the most exchanges of either.
FIRST_BYTES, TIMED_BYTES, MOST_EXCHANGES = 1e6, 2e6, 20
# Sent before each block, in messages that need no handshake; more than a link lets pass at once.
BURST_BYTES, MESSAGE_BYTES = 1_200_000, 50_000
Exchange = Callable[[], object]
Way = Callable[[numpy.ndarray], Exchange]


def ours() -> Way:
    comm = workbench.create_communicator(overlap=False)

    def exchange(array: numpy.ndarray) -> Exchange:
        names, arrays, shapes = [f"/{array.size}"], [array], [array.shape]
        return lambda: comm.mean(names, arrays, shapes)

    return exchange


def library() -> Way:
    return lambda array: lambda: WORLD.Allreduce(MPI.IN_PLACE, array)


def checked() -> Way:
    """Average, and see whether all numbers are finite and ranks agree, with MPI and NumPy alone."""

    def exchange(array: numpy.ndarray) -> Exchange:
        message = numpy.zeros(array.size + 2, "f4")
        place, factor = message[2:], numpy.array(1 / WORLD.size, "f4")
        shape = array.shape

        def average() -> None:
            place[...] = array
            message[0] = array.shape != shape
            message[1] = 0.0
            message[1] = not math.isfinite(message.dot(message))
            WORLD.Allreduce(MPI.IN_PLACE, message)
            if message.item(0) or message.item(1):
                raise ArithmeticError
            numpy.multiply(place, factor, array)

        return average

    return exchange


def naive() -> Way:
    import chainermn

    comm = chainermn.create_communicator("naive")
    return lambda array: lambda: comm._multi_node_mean(None, array)


def gloo() -> Way:
    import torch
    import torch.distributed as dist

    dist.init_process_group(
        "gloo", init_method=f"tcp://{sys.argv[4]}", rank=WORLD.rank, world_size=WORLD.size
    )

    def exchange(array: numpy.ndarray) -> Exchange:
        tensor = torch.from_numpy(array)
        return lambda: dist.all_reduce(tensor)

    return exchange


WAYS = {
    "ours": ours,
    "MPI's default": library,
    "MPI's default with checks": checked,
    "naive": naive,
    "gloo": gloo,
}


def use_up() -> None:
    """Send what a shaped link lets pass at once after a pause, all ranks at the same time."""
    sent, room = numpy.zeros(MESSAGE_BYTES, "u1"), numpy.empty(MESSAGE_BYTES, "u1")
    right, left = (WORLD.rank + 1) % WORLD.size, (WORLD.rank - 1) % WORLD.size
    for _ in range(math.ceil(BURST_BYTES / MESSAGE_BYTES)):
        WORLD.Sendrecv(sent, right, 0, room, left, 0)


def measured(ways: dict[str, Way], nbytes: int, seconds: float) -> dict[str, list[float]]:
    """Return each way's seconds for an exchange on the slowest rank; the first turn warms up."""
    array = numpy.empty(nbytes // 4, "f4")
    array.fill(0)  # stays 0, however often it is added up, and has its memory
    exchanges = [(name, way(array)) for name, way in ways.items()]
    first, timed = (
        min(MOST_EXCHANGES, math.ceil(one / nbytes)) for one in (FIRST_BYTES, TIMED_BYTES)
    )
    found: dict[str, list[float]] = {name: [] for name in ways}
    begun, number, more = time.perf_counter(), 0, True
    while more:
        for name, exchange in exchanges:
            use_up()
            WORLD.Barrier()
            for _ in range(first if nbytes < FIRST_BYTES else 0):
                exchange()
            start = time.perf_counter()
            for _ in range(timed):
                exchange()
            took = WORLD.allreduce(time.perf_counter() - start, MPI.MAX) / timed
            if number:
                found[name].append(took)
        exchanges.reverse()
        number += 1
        late = time.perf_counter() - begun > seconds
        more = WORLD.bcast(number < LEAST or (number < MOST and not late))
    return found


def main() -> None:
    sizes = [int(float(one)) for one in sys.argv[1].split(",")]
    ways = {name: WAYS[name]() for name in sys.argv[2].split(",")}
    for nbytes in sizes:
        found = measured(ways, nbytes, float(sys.argv[3]))
        if WORLD.rank == 0:
            print(FOUND + json.dumps({"rank": 0, "nbytes": nbytes, **found}), flush=True)


if __name__ == "__main__":
    main()
