"""Arrays as one sequence of elements, of which blocks are read and written where they are."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import accumulate

import numpy

from workbench.engine.exchange.transport import Array


class FlatParts:
    """Arrays of one type that follow each other; what is written into one must be contiguous."""

    def __init__(self, arrays: Sequence[Array]) -> None:
        self._arrays = [array.reshape(-1) for array in arrays]
        self._starts = [0, *accumulate(len(array) for array in self._arrays)]

    def within(self, place: slice) -> Iterator[tuple[Array, slice]]:
        """Return the parts of a block: a view of each, and where in the block it is."""
        start, number = place.start, bisect_right(self._starts, place.start) - 1
        while start < place.stop:
            first, array = self._starts[number], self._arrays[number]
            stop = min(place.stop, first + len(array))
            at = slice(start - place.start, stop - place.start)
            yield array[start - first : stop - first], at
            start, number = stop, number + 1

    @contextmanager
    def filling(self, place: slice, room: Array) -> Iterator[Array]:
        """Give memory for a block, which has it afterwards: its own where it is in one piece.

        Args:
            room: As large as a block, or larger.
        """
        parts = [*self.within(place)]
        if len(parts) == 1:
            yield parts[0][0]
            return
        block = room[: place.stop - place.start]
        yield block
        for part, at in parts:
            numpy.copyto(part, block[at])

    def fill(self, values: Array) -> None:
        """Write all elements."""
        for array, start in zip(self._arrays, self._starts, strict=False):
            numpy.copyto(array, values[start : start + len(array)])
