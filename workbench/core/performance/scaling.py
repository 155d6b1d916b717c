"""Predict the time of an epoch on more nodes, with an interval of uncertainty.

An epoch has as many iterations as its examples need; each takes a step (``step_model``).
If the parts of a step are known, ``expect`` adds them up. If only the times of an epoch on one and
two nodes are known, ``fit`` computes the cost of the second node, and lets that cost grow in each
of the possible ways:

- data around a ring: 2(p−1)/p for p ranks, the minimum (Patarasuk & Yuan 2009).
- rounds: log₂ n (Thakur et al. 2005), as in trees and congested switches.
- waiting for the slowest rank: the expected maximum of p values, between the two.

Two times cannot distinguish these, so all are used, and the band contains them all: it should be
right 19 of 20 times. A third time weighs them by how well they explain it.

A table of nodes and seconds of an epoch is fitted and used for predictions like this::

        scaling = fit([Timing(1, 34.4), Timing(2, 21.8)])  # ranks_per_node=8 for nodes with eight
    forecast = scaling.epoch(8)  # forecast.seconds, between forecast.low and forecast.high

For a table of examples per second, divide any number of examples by them. If all its sizes have
the same batch of all ranks together (strong scaling), pass ``batch=BatchPolicy.TOTAL``.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from statistics import NormalDist

from workbench.core.fleet.cost import HOUR
from workbench.core.performance.exchange_model import PLAIN, Algorithm, Coding
from workbench.core.performance.step_model import Work, WorldShape, expected_maximum, step

# Relative standard deviation of one epoch's time from run to run. For 55 published tables, fitted
# on their two smallest sizes, 95 of 100 times were within the band.
NOISE = 0.02
SURE = 2.0  # standard deviations: 19 of 20 times
# Ranks on equal machines differ by some percent; half as much again is hardly waiting.
LIKELY_SPREAD = 0.1
# Weight of a line by which one node would take no time; above zero, so that one is left.
IMPOSSIBLE = 1e-6
# A smaller speed-up is not worth mentioning.
WORTH = 1.1
# The possible error of a measured, or only rated, link.
MEASURED = 0.05
RATED = 0.15
_NORMAL = NormalDist()
# Further below zero the tail of the normal distribution is negligible.
_FAR = -6.0


class BatchPolicy(StrEnum):
    """What is kept constant when there are more ranks."""

    PER_RANK = "per rank"  # weak scaling: fewer iterations, each as long
    TOTAL = "total"  # strong scaling: as many iterations, each shorter


class CostGrowth(StrEnum):
    """How the cost of further nodes can grow."""

    RING = "ring"
    ROUNDS = "rounds"
    WAITING = "waiting"


# Prior weights: half of what libraries do is in rounds, and a ring is the minimum.
_PRIOR = {CostGrowth.RING: 0.25, CostGrowth.ROUNDS: 0.5, CostGrowth.WAITING: 0.25}
_NEGLIGIBLE = 0.02


@dataclass(frozen=True)
class Timing:
    """The measured seconds of an epoch."""

    nodes: int
    seconds: float


@dataclass(frozen=True)
class Forecast:
    """The predicted seconds of an epoch, with its band."""

    nodes: int
    seconds: float
    low: float
    high: float

    def cost(self, price: float) -> float:
        """Return the $ of an epoch, at $/h of one node."""
        return self.nodes * self.seconds * price / HOUR

    def holds(self, seconds: float) -> bool:
        """Return whether a measured time is within the band."""
        return self.low <= seconds <= self.high


@dataclass(frozen=True)
class Scaling:
    """A fitted model of the time of an epoch over the number of nodes.

    Args:
        lines: For each growth its weight, and its fitted line: work and additional cost, of an
            epoch's seconds times its nodes.
        relative: How much slower the network is than the measured one.
    """

    batch: BatchPolicy
    ranks_per_node: int
    lines: tuple[tuple[CostGrowth, float, LineFit], ...]
    relative: float = 1.0

    def epoch(self, nodes: int) -> Forecast:
        """Return the predicted seconds of an epoch on so many nodes."""
        centre = 0.0
        lows, highs = [], []
        for growth, weight, line in self.lines:
            times = self._basis(growth, nodes)
            value = max(0.0, line.at(times)) / nodes
            error = SURE * line.error(times) / nodes
            centre += weight * value
            lows.append(value - error)
            highs.append(value + error)
        return Forecast(nodes, centre, max(0.0, min(lows)), max(highs))

    def speedup(self, nodes: int) -> float:
        """Return the speed of so many nodes relative to one."""
        return self.epoch(1).seconds / self.epoch(nodes).seconds

    def gains(self, nodes: int) -> bool:
        """Return whether so many nodes are clearly faster than one."""
        return self.speedup(nodes) >= WORTH

    def moved(self, times: float) -> Scaling:
        """Return the same training on nodes whose network is ``times`` as fast.

        The additional cost of a second node counts as the network's, except for waiting.
        """
        return replace(self, relative=self.relative / times)

    def _basis(self, growth: CostGrowth, nodes: int) -> float:
        slower = 1.0 if growth is CostGrowth.WAITING else self.relative
        return slower * basis(growth, self.batch, nodes, self.ranks_per_node)


def basis(growth: CostGrowth, batch: BatchPolicy, nodes: int, ranks_per_node: int = 1) -> float:
    """Return the growth of the additional cost in node-seconds; 1 on two nodes of one rank."""
    ranks = nodes * ranks_per_node
    if nodes <= 1:
        return 0.0
    if growth is CostGrowth.RING:
        grown = 2 * (ranks - 1) / ranks
    elif growth is CostGrowth.ROUNDS:
        grown = math.log2(nodes)
    else:
        alone = expected_maximum(ranks_per_node)
        grown = (expected_maximum(ranks) - alone) / expected_maximum(2)
    return grown * (nodes if batch is BatchPolicy.TOTAL else 1)


def fit(
    timings: Iterable[Timing],
    *,
    batch: BatchPolicy = BatchPolicy.PER_RANK,
    ranks_per_node: int = 1,
    algorithm: Algorithm | None = None,
    noise: float = NOISE,
) -> Scaling:
    """Return the scaling model fitted to the times of two sizes or more.

    Work takes the same node-seconds on any number of nodes; the additional cost is not negative.
    With a constant total batch, the part of a step that does not shrink with a rank's share is an
    additional cost as well: it grows like a ring.

    Args:
        algorithm: Of the exchange; None if unknown.
        noise: Relative standard deviation of one time.

    Raises:
        ValueError: There are times of fewer than two sizes.
    """
    times = sorted(timings, key=lambda one: one.nodes)
    if len({one.nodes for one in times}) < 2:
        raise ValueError("times of two sizes are needed, such as of one and of two nodes")
    values = [one.nodes * one.seconds for one in times]
    errors = [noise * value for value in values]
    found: list[tuple[CostGrowth, float, LineFit]] = []
    for growth in _possible(algorithm):
        grown = [basis(growth, batch, one.nodes, ranks_per_node) for one in times]
        line = line_through(grown, values, errors)
        likely = _PRIOR[growth] * _plausible(growth, line, ranks_per_node)
        found.append((growth, likely, line))
    return Scaling(batch, ranks_per_node, _weighed(found, len(times)))


def _possible(algorithm: Algorithm | None) -> tuple[CostGrowth, ...]:
    if algorithm in (Algorithm.RING, Algorithm.HIERARCHICAL):
        return (CostGrowth.RING, CostGrowth.WAITING)
    if algorithm is Algorithm.DOUBLING:
        return (CostGrowth.ROUNDS, CostGrowth.WAITING)
    return tuple(CostGrowth)


def _plausible(growth: CostGrowth, line: LineFit, ranks_per_node: int) -> float:
    """Return how plausible a line is: work takes time, and ranks differ little."""
    if line.start <= 0:
        return IMPOSSIBLE
    if growth is not CostGrowth.WAITING:
        return 1.0
    spread = line.slope / (line.start * expected_maximum(2))
    return math.exp(-((spread / LIKELY_SPREAD) ** 2) / 2)


def _weighed(
    found: list[tuple[CostGrowth, float, LineFit]], count: int
) -> tuple[tuple[CostGrowth, float, LineFit], ...]:
    """Return the growths with weights that add up to 1, without those of weight 0."""
    best = min(line.misfit for _, _, line in found)
    # If even the best line misses by more than the noise, the noise is larger than given.
    scale = max(1.0, best / max(1, count - 2))
    likely = [
        (growth, prior * math.exp(-(line.misfit - best) / scale / 2), line.widened(scale))
        for growth, prior, line in found
    ]
    most = max(weight for _, weight, _ in likely)
    kept = [one for one in likely if one[1] >= _NEGLIGIBLE * most]
    total = sum(weight for _, weight, _ in kept)
    return tuple((growth, weight / total, line) for growth, weight, line in kept)


def expect(
    work: Work,
    shape: WorldShape,
    examples: float,
    *,
    batch: BatchPolicy = BatchPolicy.PER_RANK,
    coding: Coding = PLAIN,
    algorithm: Algorithm | None = None,
    tolerance: float = MEASURED,
    noise: float = NOISE,
) -> Forecast:
    """Return the predicted time of an epoch from the parts of a step.

    Args:
        examples: Per epoch.
        algorithm: None for the fastest, which our communicator uses.
        tolerance: Relative error of the link; ``RATED`` if it was not measured.
        noise: Relative error of the rank's own work.
    """
    each = work.batch if batch is BatchPolicy.PER_RANK else work.batch / shape.ranks
    steps = examples / (each * shape.ranks)

    def took(link: float, own: float, spread: float) -> float:
        there = replace(shape, link=replace(shape.link, bandwidth=shape.link.bandwidth * link))
        done = replace(work, spread=spread)
        parts = step(done, there, batch=each, coding=coding, algorithm=algorithm)
        alone = parts.compute + parts.data + parts.other
        return steps * (parts.total + own * alone)

    sure = SURE * noise
    return Forecast(
        shape.nodes,
        took(1.0, 0.0, work.spread),
        took(1 + tolerance, -sure, 0.0),
        took(1 - tolerance, sure, max(2 * work.spread, noise)),
    )


@dataclass(frozen=True)
class LineFit:
    """``start + slope · x``, with the variances of both, and the misfit of the values.

    Args:
        misfit: Sum of the squared residuals, in standard deviations.
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
    """Return the weighted least-squares line, with the mean of the possible slopes.

    If noise alone makes the slope negative, the part of its distribution above zero counts.

    Args:
        errors: Standard deviations of ``y``, above zero.
    """
    weights = [1 / error**2 for error in errors]
    total = math.fsum(weights)
    middle = math.fsum(w * a for w, a in zip(weights, x, strict=True)) / total
    mean = math.fsum(w * b for w, b in zip(weights, y, strict=True)) / total
    # About the weighted mean of x, the two parameters are independent.
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
    """Return the mean of the part of a normal distribution above zero."""
    if deviation == 0:
        return max(0.0, mean)
    score = mean / deviation
    if score < _FAR:
        return -deviation / score
    return mean + deviation * _NORMAL.pdf(score) / _NORMAL.cdf(score)
