"""Detect numbers that are not finite while they are in the cache."""

from __future__ import annotations

import math

import numpy

from workbench.engine.exchange.transport import Array


def is_suspect(array: Array) -> bool:
    """Whether some number of a flat array is not finite; a square that overflows is looked at."""
    return not math.isfinite(numpy.dot(array, array)) and not is_finite(array)


def is_finite(array: Array) -> bool:
    """Whether all numbers are finite."""
    return bool(numpy.isfinite(array).all())


class Findings:
    """Where numbers were found that are not finite, and whose they are."""

    def __init__(self) -> None:
        self.found: set[tuple[int, int]] = set()
        """Rank, and number of the array in the bucket's row."""

    def note(self, rank: int, index: int) -> None:
        """Note that ``rank`` gave such a number."""
        self.found.add((rank, index))
