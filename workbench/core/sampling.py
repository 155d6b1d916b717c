"""Thin curves to buckets that keep every extreme, and ration what drawing them may cost."""

from __future__ import annotations

import math
from dataclasses import dataclass

DEFAULT_CAPACITY = 400


@dataclass
class Bucket:
    """The values of neighbouring iterations.

    Args:
        first: Lowest iteration.
        last: Highest iteration.
        low: Least finite value; ``inf`` while there is none.
        high: Greatest finite value; ``-inf`` while there is none.
        total: Sum of the finite values.
        count: Number of the finite values.
    """

    first: int
    last: int
    low: float = math.inf
    high: float = -math.inf
    total: float = 0.0
    count: int = 0

    @property
    def mean(self) -> float:
        """Mean of the finite values, ``nan`` when there is none."""
        return self.total / self.count if self.count else math.nan

    def merge(self, other: Bucket) -> None:
        """Take in the values of ``other``."""
        self.first = min(self.first, other.first)
        self.last = max(self.last, other.last)
        self.low = min(self.low, other.low)
        self.high = max(self.high, other.high)
        self.total += other.total
        self.count += other.count


@dataclass(frozen=True)
class Trace:
    """A thinned curve, ready to be drawn; ``nan`` where there was no finite value.

    The band from ``low`` to ``high`` holds every value: of all ranks, and of all the iterations
    that one bucket stands for.
    """

    iterations: tuple[float, ...]
    mean: tuple[float, ...]
    low: tuple[float, ...]
    high: tuple[float, ...]

    @property
    def has_band(self) -> bool:
        """Whether some bucket holds values that differ."""
        return any(
            high - low > 1e-9 * max(abs(low), abs(high), 1e-300)
            for low, high in zip(self.low, self.high, strict=True)
        )


class Curve:
    """One metric over iterations, from all ranks, in bounded memory.

    While there are at most ``capacity`` iterations, each has a bucket of its own and nothing is
    lost. Then buckets merge in pairs, so minimum, maximum and mean stay exact for each.

    Args:
        capacity: Greatest number of buckets.
    """

    def __init__(self, capacity: int = DEFAULT_CAPACITY) -> None:
        self.capacity = capacity
        self.width = 1
        self.ranks: set[int] = set()
        self._buckets: dict[int, Bucket] = {}

    def __repr__(self) -> str:
        return f"<Curve {len(self._buckets)} buckets of {self.width} iterations>"

    def __len__(self) -> int:
        return len(self._buckets)

    def add(self, rank: int, iteration: int, value: float) -> None:
        """Take in one value, in any order of iterations."""
        self.ranks.add(rank)
        index = iteration // self.width
        bucket = self._buckets.get(index)
        if bucket is None:
            bucket = self._buckets[index] = Bucket(iteration, iteration)
            if len(self._buckets) > self.capacity:
                self._coarsen()
                bucket = self._buckets[iteration // self.width]
        elif iteration > bucket.last:
            bucket.last = iteration
        elif iteration < bucket.first:
            bucket.first = iteration
        if math.isfinite(value):
            bucket.low = min(bucket.low, value)
            bucket.high = max(bucket.high, value)
            bucket.total += value
            bucket.count += 1

    def trace(self) -> Trace:
        """Return the curve in order of iterations."""
        buckets = [self._buckets[index] for index in sorted(self._buckets)]
        return Trace(
            iterations=tuple((b.first + b.last) / 2 for b in buckets),
            mean=tuple(b.mean for b in buckets),
            low=tuple(b.low if b.count else math.nan for b in buckets),
            high=tuple(b.high if b.count else math.nan for b in buckets),
        )

    def _coarsen(self) -> None:
        while len(self._buckets) > self.capacity:
            self.width *= 2
            merged: dict[int, Bucket] = {}
            for bucket in self._buckets.values():
                known = merged.setdefault(bucket.first // self.width, bucket)
                if known is not bucket:
                    known.merge(bucket)
            self._buckets = merged


class Ration:
    """Says when something costly may be done again.

    Its total cost stays below an allowance to begin with and a share of the time that passes.

    Args:
        interval: Least seconds from one time to the next.
        allowance: Seconds that it may cost at once.
        share: Seconds that it may cost in each further second.
    """

    def __init__(self, interval: float, allowance: float, share: float) -> None:
        self.interval = interval
        self.allowance = allowance
        self.share = share
        self._first: float | None = None
        self._last = -math.inf
        self._spent = 0.0

    def due(self, now: float) -> bool:
        """Whether it may be done at ``now``; the first time it always may."""
        if self._first is None:
            return True
        earned = self.allowance + self.share * (now - self._first)
        return now - self._last >= self.interval and self._spent <= earned

    def spend(self, now: float, cost: float) -> None:
        """Note that it was done at ``now`` and took ``cost`` seconds."""
        self._first = now if self._first is None else self._first
        self._last = now
        self._spent += cost
