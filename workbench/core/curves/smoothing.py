"""Smooth a noisy curve, by the same rule as ``extension/src/run/series.ts``."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

FEW = 30  # points: shorter curves are not smoothed
REACH = 0.02  # of the curve: makes noise legible for any number of points


def smooth(x: Sequence[float], values: Sequence[float], reach: float = REACH) -> list[float]:
    """Return the average around each point, with weights that fall exponentially to both sides.

    Args:
        x: In ascending order.
        values: Shape as ``x``; values that are not finite are kept, and have no weight.
        reach: Share of the curve over which a weight falls to 1/e; 0 smooths nothing.
    """
    if not x or not reach:
        return list(values)
    distance = reach * (x[-1] - x[0]) or 1.0
    known = [i for i, value in enumerate(values) if math.isfinite(value)]
    smoothed = list(values)
    sums, weights = [0.0] * len(values), [0.0] * len(values)
    for order in (known, known[::-1]):
        for i, total, amount in _before(order, x, values, distance):
            sums[i] += total
            weights[i] += amount
    for i in known:
        smoothed[i] = (sums[i] + values[i]) / (weights[i] + 1)
    return smoothed


def _before(
    order: Sequence[int], x: Sequence[float], values: Sequence[float], reach: float
) -> Iterator[tuple[int, float, float]]:
    """Yield for each point the weighted sum of those before it, and their weights."""
    total = amount = 0.0
    last = x[order[0]] if order else 0.0
    for i in order:
        kept = math.exp(-abs(x[i] - last) / reach) if amount else 0.0
        total, amount, last = kept * total, kept * amount, x[i]
        yield i, total, amount
        total, amount = total + values[i], amount + 1
