"""Split buffers into chunks, without a copy."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from typing import NamedTuple

from workbench.engine.exchange.transport import Array


class ArraySlice(NamedTuple):
    """A run of elements of one array: ``arrays[number][start:stop]``."""

    number: int
    start: int
    stop: int


def cut(
    sizes: Sequence[int], parts: int, most: int, shares: Sequence[float] = ()
) -> list[list[ArraySlice]]:
    """Cut arrays, as one sequence of elements, into parts, each in pieces.

    Args:
        sizes: Elements of each array.
        most: Greatest number of elements of a piece.
        shares: Of the elements in each part; equal ones by default.
    """
    total = sum(sizes)
    borders = [total * part // parts for part in range(parts + 1)]
    if shares:
        ends = [round(total * end) for end in accumulate(shares)]
        borders = [0, *(min(total, end) for end in ends[:-1]), total]
    found: list[list[ArraySlice]] = [[] for _ in range(parts)]
    offset = part = 0
    for index, size in enumerate(sizes):
        start = 0
        while start < size:
            while borders[part + 1] <= offset + start:
                part += 1
            stop = min(size, start + most, borders[part + 1] - offset)
            found[part].append(ArraySlice(index, start, stop))
            start = stop
        offset += size
    return found


def views(arrays: Sequence[Array], parts: Sequence[Sequence[ArraySlice]]) -> list[list[Array]]:
    """Return a view of each piece; ``arrays`` are flat."""
    return [[arrays[p.number][p.start : p.stop] for p in part] for part in parts]
