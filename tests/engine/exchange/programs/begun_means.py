"""Average buckets of which most begin while the one before them ends, on each rank others."""

from __future__ import annotations

import threading
from functools import partial

import numpy as np

from tests.engine.exchange.programs.reference import comm_world, exact, same_on_all
from tests.engine.programs.world import found, rank, write_found
from workbench.core.performance.exchange_model import Algorithm
from workbench.engine.exchange.reducer import Reducer
from workbench.engine.exchange.transport import Transport

PATIENCE_SECONDS = 60.0
SIZES = (100_003, 7, 300_001, 0, 2_000_000, 40_000, 600_000)

transport = Transport(comm_world)
reducer = Reducer(transport, Algorithm.RING)
random = np.random.RandomState(rank)
begun: list[int] = []


def begin(number: int) -> None:
    begun.append(number)
    reducer.begin(buckets[number])


def hold() -> None:
    """Keep the worker until all buckets wait for it."""
    submitted.wait(PATIENCE_SECONDS)


def average(number: int) -> None:
    reducer.mean([buckets[number]], meanwhile=transport.begin_next)


for turn in range(3):
    buckets = [random.randn(size).astype("f4") for size in SIZES]
    means, submitted = exact(buckets), threading.Event()
    transport.worker.submit(hold)
    for number in range(len(SIZES)):
        begins = (turn + rank + number) % 3 > 0
        transport.worker.submit(
            partial(average, number), partial(begin, number) if begins else None
        )
    submitted.set()
    transport.rest()
    found[f"far {turn}"] = max(
        float(abs(a - b).max()) for a, b in zip(buckets, means, strict=True) if len(a)
    )
    found[f"alike {turn}"] = same_on_all(buckets)
found["begun"] = len(begun)

write_found()
