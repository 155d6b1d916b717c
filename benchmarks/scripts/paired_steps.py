"""Do blocks of steps in turn with and without `workbench.elastic`, as the source of a cell.

Writes a line for each block to ``target``: 1 for elastic, its steps, and its seconds of wall time
and of this process's processor time, that of the thread which writes snapshots included. The state
has 100 MB.
"""

from __future__ import annotations

import json
import time
from pathlib import Path

import numpy

import workbench

UNITS = 400
NUMBERS = 12_500_000  # of 4 bytes, and as many of momentum
target, steps, pairs = (globals()[name] for name in ("target", "steps", "pairs"))
state = {name: numpy.zeros(NUMBERS, "f") for name in ("weights", "momentum")}
matrix = numpy.random.RandomState(0).rand(UNITS, UNITS).astype("f")
product = numpy.empty_like(matrix)
loop = iter(workbench.elastic(state))


def step() -> None:
    """Compute for about 10 ms, and change a part of the state."""
    for _ in range(4):
        numpy.matmul(matrix, matrix, out=product)
    state["weights"][:1000] += 1


def block(*, elastic: bool) -> None:
    """Do a block of steps, and write down how long it took."""
    wall, processor = time.perf_counter(), time.process_time()
    for _ in range(steps):
        if elastic:
            next(loop)
        step()
    took = (time.perf_counter() - wall, time.process_time() - processor)
    with Path(target).open("a", encoding="utf-8") as file:
        print(json.dumps([int(elastic), steps, *took]), file=file)


for number in range(pairs + 1):  # the first pair warms up, and has the first snapshot
    # The order changes, so that neither is always the later one.
    for elastic in (number % 2 == 0, number % 2 == 1):
        block(elastic=elastic)
loop.close()
