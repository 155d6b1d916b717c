"""A plan of 200 types of node and up to 64 of each, beside the same model one shape at a time."""

from __future__ import annotations

import random
import time
from collections.abc import Callable

from workbench.core.fleet.model import Offer
from workbench.core.performance.exchange_model import CARRIED, CODINGS, Link
from workbench.core.performance.frontier import LATENCY, MOST_NODES, Task, frontier
from workbench.core.performance.step_model import Work, WorldShape, step

from .figures import Row, Series, interleaved
from .place import Place

TYPES = 200
LIMIT_SECONDS = 0.1
OURS, THEIRS = "plan", "shape by shape"
WORK = Work(0.2, 102.4e6, batch=32, spread=0.03)


def measure(place: Place, rounds: int, say: Callable[[str], None]) -> list[Row]:
    """Plan with both, in turn; every type differs from all others in network and price."""
    offers = _offers(random.Random(0))
    task = Task(WORK, 1.28e6, "T4")

    def planned() -> float:
        begun = time.perf_counter()
        frontier(task, offers, codings=CODINGS)
        return time.perf_counter() - begun

    def one_by_one() -> float:
        begun = time.perf_counter()
        for offer in offers:
            link = Link(LATENCY, CARRIED * offer.network * 1e9 / 8)
            for nodes in range(1, MOST_NODES + 1):
                shape = WorldShape(nodes, link, offer.gpus)
                min(step(WORK, shape, coding=coding).total for coding in CODINGS)
        return time.perf_counter() - begun

    planned()  # loads what it needs
    found = interleaved(rounds, {OURS: planned, THEIRS: one_by_one}, say)
    shapes = f"{TYPES} types × {MOST_NODES} sizes × {len(CODINGS)} codecs"
    return [
        Row(
            "plan of time and money",
            "s",
            Series(OURS, found[OURS].values),
            Series(THEIRS, found[THEIRS].values),
            limit=LIMIT_SECONDS,
            note=f"{shapes}, with the frontier, its bands and a curve of each type",
        )
    ]


def _offers(draw: random.Random) -> list[Offer]:
    return [
        Offer(
            type=f"type{place}.xlarge",
            zone="a",
            price=draw.uniform(0.1, 3.0),
            vcpus=8,
            memory=32.0,
            gpus=draw.choice((1, 4, 8)),
            gpu="T4",
            network=draw.uniform(0.5, 25.0),
        )
        for place in range(TYPES)
    ]
