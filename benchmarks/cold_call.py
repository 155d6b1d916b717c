"""A Python function of four lines between two pieces of other work, and in a loop.

What workbench does in each step of a training is done once between two pieces of the training's own
work, when the processor's caches may hold something else. This is about the least that a hook costs
at that moment; it changes within minutes with what else the host does.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from statistics import median

import numpy

from .figures import Row, interleaved
from .place import Place

WORK_SECONDS = (0.001, 0.01)
CALLS = 200
NUMBERS = 4_096  # of 4 bytes: the work itself leaves room in every cache
BETWEEN, LOOP = "between the work", "in a loop"


class _Progress:
    """Something like what is noted in a step."""

    def __init__(self) -> None:
        self.done, self.next_look = 0, time.monotonic()
        self.names = {"model": 1, "optimizer": 2}

    def note(self) -> bool:
        """Count a step, and return whether it is time for a look."""
        self.done += 1
        if len(self.names) != 2:
            raise ValueError("the names have changed")
        return time.monotonic() < self.next_look


def measure(place: Place, rounds: int, say: Callable[[str], None]) -> list[Row]:
    """Call it after work of two lengths, and in a loop, in turn."""
    numbers, result = numpy.ones(NUMBERS, "f4"), numpy.empty(NUMBERS, "f4")
    note = _Progress().note

    def work(seconds: float) -> None:
        until = time.perf_counter() + seconds
        while time.perf_counter() < until:
            for _ in range(20):
                numpy.sqrt(numbers, out=result)

    def called(seconds: float) -> float:
        took = []
        for _ in range(CALLS):
            work(seconds)
            took.append(_timed(note))
        return median(took)

    def looped() -> float:
        return median(_timed(note) for _ in range(CALLS))

    rows = []
    for seconds in WORK_SECONDS:
        found = interleaved(rounds, {BETWEEN: partial(called, seconds), LOOP: looped}, say)
        what = f"a Python function of four lines after {1e3 * seconds:.0f} ms of other work"
        rows.append(
            Row(
                what,
                "s",
                *found.values(),
                note="on one core; about the least that a hook of a step costs",
            )
        )
    return rows


def _timed(function: Callable[[], object]) -> float:
    """Return the seconds of a call, with two looks at the clock."""
    begun = time.perf_counter()
    function()
    return time.perf_counter() - begun
