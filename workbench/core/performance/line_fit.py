"""Fit a line to uncertain values, with a slope that cannot be negative."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from statistics import NormalDist

_NORMAL = NormalDist()
# Further below zero the normal distribution's tail is not worth its arithmetic.
_FAR = -6.0


@dataclass(frozen=True)
class LineFit:
    """``start + slope · x``, with the variances of both, and by how much it missed the values.

    Args:
        misfit: Sum of squares of what was missed, in standard deviations.
    """

    start: float
    slope: float
    start_variance: float
    slope_variance: float
    covariance: float
    misfit: float = 0.0

    def at(self, x: float) -> float:
        """Return the value at ``x``."""
        return self.start + self.slope * x

    def error(self, x: float) -> float:
        """Return the standard deviation of the value at ``x``."""
        variance = self.start_variance + 2 * x * self.covariance + x * x * self.slope_variance
        return math.sqrt(max(0.0, variance))

    def widened(self, times: float) -> LineFit:
        """Return the line with variances ``times`` as large."""
        return replace(
            self,
            start_variance=self.start_variance * times,
            slope_variance=self.slope_variance * times,
            covariance=self.covariance * times,
        )


def line_through(x: Sequence[float], y: Sequence[float], errors: Sequence[float]) -> LineFit:
    """Return the line of weighted least squares, with the mean of the slopes that can be.

    If noise alone makes the slope negative, what is left of its distribution above zero counts.

    Args:
        errors: Standard deviations of ``y``, above zero.
    """
    weights = [1 / error**2 for error in errors]
    total = math.fsum(weights)
    middle = math.fsum(w * a for w, a in zip(weights, x, strict=True)) / total
    mean = math.fsum(w * b for w, b in zip(weights, y, strict=True)) / total
    # About the middle the two parameters do not depend on each other.
    square = math.fsum(w * (a - middle) ** 2 for w, a in zip(weights, x, strict=True))
    products = (w * (a - middle) * (b - mean) for w, a, b in zip(weights, x, y, strict=True))
    variance = 1 / square
    slope = positive_mean(math.fsum(products) / square, math.sqrt(variance))
    misses = (
        w * (b - mean - slope * (a - middle)) ** 2 for w, a, b in zip(weights, x, y, strict=True)
    )
    return LineFit(
        start=mean - slope * middle,
        slope=slope,
        start_variance=1 / total + middle**2 * variance,
        slope_variance=variance,
        covariance=-middle * variance,
        misfit=math.fsum(misses),
    )


def positive_mean(mean: float, deviation: float) -> float:
    """Return the mean of a normal distribution's part above zero."""
    if deviation == 0:
        return max(0.0, mean)
    score = mean / deviation
    if score < _FAR:
        return -deviation / score
    return mean + deviation * _NORMAL.pdf(score) / _NORMAL.cdf(score)
