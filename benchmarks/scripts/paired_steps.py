"""Do blocks of steps in turn with and without `workbench.elastic`, as the source of a cell.

Writes a line for each step to ``target`` in the end: 1 for elastic, and its seconds of wall time
and of this process's processor time, that of the thread which writes snapshots included. The state
has 100 MB. A step computes on one core and in its cache, so that neither other cores nor memory
decide how long it takes.
"""

from __future__ import annotations

import json
import time
from pathlib import Path

import numpy

import workbench

MEMORY_SECONDS = 1.0
NUMBERS = 12_500_000  # of 4 bytes, and as many of momentum
target, steps, pairs, seconds = (
    globals()[name] for name in ("target", "steps", "pairs", "seconds")
)
state = {name: numpy.zeros(NUMBERS, "f") for name in ("weights", "momentum")}
numbers = numpy.random.RandomState(0).rand(4_096).astype("f")
result = numpy.empty_like(numbers)
lines: list[list[float]] = []


def compute(times: int) -> float:
    """Return the seconds that it takes."""
    begun = time.perf_counter()
    for _ in range(times):
        numpy.sqrt(numbers, out=result)
    return time.perf_counter() - begun


times = int(1_000 * seconds / min(compute(1_000) for _ in range(20)))
loop = iter(workbench.elastic(state))
for _ in range(4):  # the first snapshot is after five: its memory is there by then
    next(loop)
    time.sleep(MEMORY_SECONDS)
for number in range(2 * pairs):
    elastic = number % 4 in (0, 3)  # the order changes, so that neither is always the later one
    for _ in range(steps):
        wall, processor = time.perf_counter(), time.process_time()
        if elastic:
            next(loop)
        compute(times)
        state["weights"][:1000] += 1
        took = [time.perf_counter() - wall, time.process_time() - processor]
        lines.append([int(elastic), *took])
loop.close()
Path(target).write_text("".join(f"{json.dumps(line)}\n" for line in lines), encoding="utf-8")
