"""What a downsampled curve is given out as: a trace to draw, some of its buckets, or its ends."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

FEW = 16  # buckets for which a loop costs less than NumPy's calls


@dataclass(frozen=True)
class Trace:
    """A downsampled curve, ready to draw; ``nan`` without a finite value.

    The band from ``low`` to ``high`` contains every value: of all ranks, and of all the iterations
    of a bucket.
    """

    iterations: tuple[float, ...]
    mean: tuple[float, ...]
    low: tuple[float, ...]
    high: tuple[float, ...]

    @property
    def has_band(self) -> bool:
        """Whether some bucket has values that differ."""
        return any(
            high - low > 1e-9 * max(abs(low), abs(high), 1e-300)
            for low, high in zip(self.low, self.high, strict=True)
        )


class Column(Protocol):
    """Numbers: an array of NumPy, or of Python, which is sooner made of a few."""

    def __len__(self) -> int: ...

    def tolist(self) -> list[Any]:
        """Return its numbers."""


@dataclass(frozen=True)
class Buckets:
    """Some buckets of a curve in order of iterations, as columns of equal length.

    Args:
        x: The iteration in the middle of each bucket.
        index: Iteration // ``width``, which identifies a bucket.
        median: Of the ranks' means; ``nan`` if no rank has a finite value.
        marked: The mean of the requested rank; ``nan`` if it has none.
        width: Iterations per bucket.
        fresh: Whether these are all buckets, so that earlier ones must be dropped.
    """

    x: Column
    index: Column
    low: Column
    median: Column
    high: Column
    mean: Column
    marked: Column
    width: int
    fresh: bool

    def __len__(self) -> int:
        return len(self.x)


@dataclass(frozen=True)
class Ends:
    """The first and the last finite value of a curve, each with its iteration.

    Args:
        is_finite: Whether the newest bucket has a finite value.
    """

    first: tuple[float, float]
    last: tuple[float, float]
    is_finite: bool
