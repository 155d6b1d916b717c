"""Estimate how much step times vary, and how certain a prediction can be."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from statistics import median, quantiles

# Assumed for a run that was too short to measure it.
UNKNOWN_NOISE = 0.1
LEAST_WINDOWS = 4
# Distance between the quartiles of a normal distribution, in standard deviations.
_QUARTILES = 1.349
# Two standard deviations: 19 of 20 values are within.
SURE = 2.0


def noise_of(windows: Iterable[Sequence[float]]) -> float:
    """Return the relative standard deviation of the time of a step.

    It is computed from quartiles, so that a window with an evaluation has little weight.

    Args:
        windows: For each rank the mean seconds of a step, window by window.
    """
    found = [
        (upper - lower) / _QUARTILES / middle
        for lower, middle, upper in (
            quantiles(one, n=4) for one in windows if len(one) >= LEAST_WINDOWS
        )
        if middle > 0
    ]
    return median(found) if found else UNKNOWN_NOISE


def widen_range(low: float, high: float, *noises: float) -> tuple[float, float]:
    """Return a predicted range, widened by the noise of all runs that it depends on."""
    room = math.exp(SURE * math.hypot(*noises))
    return low / room, high * room


def scale_band(scales: Sequence[float]) -> tuple[float, float] | None:
    """Return the range of four of five estimates of a scale; None if there are too few."""
    if len(scales) < LEAST_WINDOWS:
        return None
    ordered = sorted(scales)
    low, high = (ordered[round(share * (len(ordered) - 1))] for share in (0.1, 0.9))
    return low, high
