"""Repeat a measurement until it converges or its time is over."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from typing import Any

from mpi4py import MPI

from workbench.core.performance.bandwidth import is_enough

POLL_SECONDS = 1e-4
_SPINS = 50
_BATCH = 3
_MOST = 200


def repeat(comm: MPI.Comm, once: Callable[[], float], budget: float) -> list[float]:
    """Return the seconds of each repetition on rank 0 of ``comm``; all ranks repeat as often.

    Args:
        once: Runs the measurement, collectively, and returns its seconds.
        budget: Seconds for all repetitions together; at least one is run.
    """
    took: list[float] = []
    begun = time.perf_counter()
    more = 1
    while more:
        took += [once() for _ in range(more)]
        if comm.rank == 0:
            left = budget - (time.perf_counter() - begun)
            fits = int(left / max(took[-1], 1e-9))
            done = is_enough(took) or len(took) >= _MOST
            more = 0 if done else max(0, min(_BATCH, fits))
        more = comm.bcast(more)
    return took


def loops(seconds: float, wanted: float) -> int:
    """Return how many repetitions of a short operation take ``wanted`` seconds."""
    return max(1, min(10_000, math.ceil(wanted / max(seconds, 1e-9))))


def settle(request: Any) -> None:
    """Wait for a message, without using the core that transfers it."""
    for _ in range(_SPINS):
        if request.Test():
            return
    while not request.Test():
        time.sleep(POLL_SECONDS)


def gather_here(comm: MPI.Comm) -> None:
    """Wait for all ranks, without using the cores of those that still measure."""
    request = comm.Ibarrier()
    while not request.Test():
        time.sleep(10 * POLL_SECONDS)
