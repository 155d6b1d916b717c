"""Predict the time of an epoch on more nodes, with an interval of uncertainty.

An epoch has as many iterations as its examples need; each takes a step (``step_model``). Where the
parts of a step are known, ``expect`` adds them up. Where the times of an epoch on two numbers of
nodes or more were measured, ``fit`` explains them.

Nodes times seconds would stay the same if nothing were lost. Relative to one node they are

    (1 + r · growth(n)) · max(1, n / s)^e

with an unknown loss ``r`` at two nodes, and one of the ways in which it can grow. Between any
doublings, something that all share may reach a limit, as a switch or a file server does: beyond
``s`` nodes it slows them. Where no capacity is left at all (e = 1), ``s`` nodes are as fast as any
more; where some is left, e is smaller. Small clusters seldom reach such a limit, so its probability
grows with the logarithm of the nodes. A hard one may lie within the measured sizes, and all may lie
beyond them.

- data around a ring: 2(p−1)/p for p ranks, the minimum (Patarasuk & Yuan 2009).
- rounds: log₂ n (Thakur et al. 2005), as in trees and congested switches.
- linear: n − 1, as where one host sends to all, or all wait for one lock.
- waiting for the slowest rank: the expected maximum of p values.

A few times cannot distinguish these. So all of them are weighed by how well they explain the times
(Bayes), and the band contains 95 % of what remains possible. Three more errors have a part in it:
each time varies from run to run, one of them may be odd, and the truth drifts away from these
curves, the further from the measured sizes the more (a random walk over log₂ n). The weights before
the times are known were chosen with half of the published tables in ``tests``, and checked with the
other half.

A table of nodes and seconds of an epoch is fitted and used for predictions like this::

        scaling = fit([Timing(1, 34.4), Timing(2, 21.8)])  # ranks_per_node=8 for nodes with eight
    forecast = scaling.epoch(8)  # forecast.seconds, between forecast.low and forecast.high

For a table of examples per second, divide any number of examples by them. If all its sizes have
the same batch of all ranks together (strong scaling), pass ``batch=BatchPolicy.TOTAL``. Ranks of
one machine are no nodes: their times say nothing of the links between machines.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum

import numpy as np
from numpy.typing import ArrayLike, NDArray

from workbench.core.performance.exchange_model import PLAIN, Algorithm, Coding
from workbench.core.performance.step_model import Work, WorldShape, expected_maximum, step

Array = NDArray[np.float64]
# Relative standard deviation of one epoch's time from run to run.
NOISE = 0.02
SURE = 2.0  # standard deviations: 19 of 20 times
# A smaller speed-up is not worth mentioning.
WORTH = 1.1
# The possible error of a measured, or only rated, link.
MEASURED = 0.05
RATED = 0.15
# What a band contains.
_CERTAIN = 0.95


class BatchPolicy(StrEnum):
    """What is kept constant when there are more ranks."""

    PER_RANK = "per rank"  # weak scaling: fewer iterations, each as long
    TOTAL = "total"  # strong scaling: as many iterations, each shorter


class CostGrowth(StrEnum):
    """How the cost of further nodes can grow."""

    RING = "ring"
    ROUNDS = "rounds"
    LINEAR = "linear"
    WAITING = "waiting"


# Weights before any time is known.
_GROWTHS = {
    CostGrowth.RING: 0.35,
    CostGrowth.ROUNDS: 0.35,
    CostGrowth.LINEAR: 0.15,
    CostGrowth.WAITING: 0.15,
}
# The loss at two nodes: none, or lognormal about 5 %.
_NO_LOSS = 0.1
_USUAL_LOSS = 0.05
_LOSS_SPREAD = 1.6
_LOSSES = np.concatenate([[0.0], np.geomspace(1e-3, 4.0, 45)])
# For each exponent, the probability that the doubling from two nodes reaches a limit beyond which
# node-seconds grow with that power of the nodes. The doubling from n nodes has log₂ n times as
# high a probability.
_HARD = {1.0: 0.0075}
_LIMITS = {**_HARD, 0.25: 0.03}
# The drift per doubling of the nodes, with its weight.
_DRIFTS = {0.005: 0.3, 0.02: 0.35, 0.05: 0.25, 0.12: 0.1}
# The probability that a time is odd, and its relative standard deviation then.
_ODD = 0.05
_ODD_NOISE = 0.3
# What explains the times this much worse than the best one is left out.
_NEGLIGIBLE = 1e-4


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

    def holds(self, seconds: float) -> bool:
        """Return whether a measured time is within the band."""
        return self.low <= seconds <= self.high


@dataclass(frozen=True)
class _Limit:
    """A number of nodes beyond which something that all share slows them.

    Args:
        exponent: Node-seconds grow with this power of the nodes; 0 for no limit.
        probability: Before any time is known.
    """

    nodes: float
    exponent: float
    probability: float

    def delay(self, nodes: ArrayLike) -> Array:
        """Return the logarithm of the factor by which each number of nodes is slower."""
        return np.asarray(self.exponent * np.log(np.maximum(1.0, np.asarray(nodes) / self.nodes)))


@dataclass(frozen=True, eq=False)
class _Explanation:
    """One way to explain the times, for all losses in ``_LOSSES``.

    Args:
        odd: The place of the odd time; -1 for none.
        limit: A limit within the measured sizes, if there is one.
        likelihood: Logarithm, shape (losses,).
        level: Logarithm of the node-seconds of one node, shape (losses,).
        pull: What the residuals say about other sizes, shape (losses, times).
        precision: Inverse covariance of the times, shape (times, times).
    """

    growth: CostGrowth
    drift: float
    odd: int
    limit: _Limit
    likelihood: Array
    level: Array
    pull: Array
    precision: Array


@dataclass(frozen=True, eq=False)
class Scaling:
    """A fitted model of the time of an epoch over the number of nodes.

    Args:
        sizes: The measured numbers of nodes.
        doubtful: Those whose time does not fit the others, and counts little.
        explanations: With their weights, shape (explanations, losses).
    """

    batch: BatchPolicy
    ranks_per_node: int
    sizes: tuple[int, ...]
    doubtful: tuple[int, ...] = ()
    explanations: tuple[_Explanation, ...] = field(default=(), repr=False)
    weights: Array = field(default_factory=lambda: np.zeros((0, 0)), repr=False)

    def epoch(self, nodes: int) -> Forecast:
        """Return the predicted seconds of an epoch on so many nodes."""
        means = self._means(np.array([nodes]))[:, :, 0].ravel()
        deviations = np.repeat(
            [self._deviation(one, nodes) for one in self.explanations], len(_LOSSES)
        )
        there = self.weights.ravel() > _NEGLIGIBLE
        weights, means, deviations = self.weights.ravel()[there], means[there], deviations[there]
        limits = _limits(self.sizes[-1], nodes, _LIMITS)
        mixture = (
            np.concatenate([one.probability * weights for one in limits]),
            np.concatenate([means + one.delay(nodes) for one in limits]),
            np.tile(deviations, len(limits)),
        )
        low, middle, high = (
            math.exp(_quantile(*mixture, share)) / nodes
            for share in (0.5 - _CERTAIN / 2, 0.5, 0.5 + _CERTAIN / 2)
        )
        return Forecast(nodes, middle, low, high)

    def seconds(self, nodes: NDArray[np.int64]) -> Array:
        """Return the predicted seconds of an epoch on each number of nodes, without bands.

        A hard limit is so rare that the middle of the band hardly moves for it.
        """
        level = np.einsum("el,eln->n", self.weights, self._means(nodes))
        limits = _limits(self.sizes[-1], int(nodes.max()), _LIMITS)
        slower = sum(one.probability * one.delay(nodes) for one in limits if one.exponent < 1)
        return np.asarray(np.exp(level + slower) / nodes)

    def _means(self, nodes: NDArray[np.int64]) -> Array:
        """Return means of the logarithm of node-seconds, shape (explanations, losses, nodes)."""
        curves = {
            growth: _curve(growth, self.batch, nodes, self.ranks_per_node)
            for growth in {one.growth for one in self.explanations}
        }
        shared = _shared_drift(self.sizes, nodes)
        return np.array(
            [
                one.level[:, None]
                + curves[one.growth]
                + one.limit.delay(nodes)
                + one.pull @ (one.drift**2 * shared)
                for one in self.explanations
            ]
        )

    def _deviation(self, one: _Explanation, nodes: int) -> float:
        """Return the standard deviation of the logarithm of node-seconds by one explanation."""
        drift = one.drift**2 * _shared_drift(self.sizes, [nodes])[:, 0]
        own = one.drift**2 * abs(math.log2(nodes / self.sizes[0]))
        reach = one.precision @ drift
        level = (1 - reach.sum()) ** 2 / one.precision.sum()
        return math.sqrt(NOISE**2 + own - drift @ reach + level)


def _shared_drift(sizes: Iterable[int], others: Iterable[int]) -> Array:
    """Return how many doublings each size has in common with each of the others, from the first.

    Sizes below the first drift in the other direction, and have none in common.
    """
    places, towards = np.log2([*sizes]), np.log2([*others])
    first = places[0]
    return np.asarray(np.maximum(0.0, np.minimum.outer(places - first, towards - first)))


def basis(growth: CostGrowth, batch: BatchPolicy, nodes: int, ranks_per_node: int = 1) -> float:
    """Return the growth of the additional cost in node-seconds; 1 on two nodes of one rank."""
    ranks = nodes * ranks_per_node
    if nodes <= 1:
        return 0.0
    if growth is CostGrowth.RING:
        grown = 2 * (ranks - 1) / ranks
    elif growth is CostGrowth.ROUNDS:
        grown = math.log2(nodes)
    elif growth is CostGrowth.LINEAR:
        grown = nodes - 1.0
    else:
        alone = expected_maximum(ranks_per_node)
        grown = (expected_maximum(ranks) - alone) / expected_maximum(2)
    return grown * (nodes if batch is BatchPolicy.TOTAL else 1)


def _curve(
    growth: CostGrowth, batch: BatchPolicy, nodes: Iterable[int], ranks_per_node: int
) -> Array:
    """Return the logarithm of node-seconds relative to one node, shape (losses, nodes)."""
    grown = [basis(growth, batch, int(one), ranks_per_node) for one in nodes]
    return np.log1p(np.outer(_LOSSES, grown))


def fit(
    timings: Iterable[Timing],
    *,
    batch: BatchPolicy = BatchPolicy.PER_RANK,
    ranks_per_node: int = 1,
    noise: float = NOISE,
) -> Scaling:
    """Return the scaling model fitted to the times of two sizes or more.

    Args:
        timings: Repeated times of one size count by their geometric mean.
        noise: Relative standard deviation of one time.

    Raises:
        ValueError: There are times of fewer than two sizes.
    """
    repeats: dict[int, list[float]] = {}
    for one in timings:
        repeats.setdefault(one.nodes, []).append(math.log(one.nodes * one.seconds))
    sizes = tuple(sorted(repeats))
    if len(sizes) < 2:
        raise ValueError("times of two sizes are needed, such as of one and of two nodes")
    values = np.array([float(np.mean(repeats[size])) for size in sizes])
    variances = np.array([noise**2 / len(repeats[size]) for size in sizes])
    levels = {growth: values - _curve(growth, batch, sizes, ranks_per_node) for growth in _GROWTHS}
    none, *limits = _limits(sizes[0], sizes[-1], _HARD)
    found: list[_Explanation] = []
    for drift, share in _DRIFTS.items():
        for odd in range(-1, len(sizes)):
            precision, fixed = _precision(sizes, variances, drift, odd)
            for limit in (none, *limits) if odd < 0 else (none,):
                for growth, prior in _GROWTHS.items():
                    likely = fixed + math.log(share * prior * limit.probability)
                    rest = levels[growth] - limit.delay(sizes)
                    found.append(_explain_times(growth, drift, odd, limit, rest, precision, likely))
    return _weigh_curves(Scaling(batch, ranks_per_node, sizes), found)


def _precision(
    sizes: Sequence[int], variances: Array, drift: float, odd: int
) -> tuple[Array, float]:
    """Return the inverse covariance of the times, and the logarithm of its part in the weight."""
    covariance = np.diag(variances) + drift**2 * _shared_drift(sizes, sizes)
    usual = math.log(1 - _ODD)
    fixed = len(sizes) * usual
    if odd >= 0:
        covariance[odd, odd] += _ODD_NOISE**2
        fixed += math.log(_ODD) - usual
    precision = np.asarray(np.linalg.inv(covariance), np.float64)
    fixed -= (float(np.linalg.slogdet(covariance)[1]) + math.log(precision.sum())) / 2
    return precision, fixed


def _limits(first: int, last: int, exponents: Mapping[float, float]) -> list[_Limit]:
    """Return no limit, and then each place of one between two numbers of nodes.

    Limits lie between the doublings.

    Args:
        exponents: With the probability in the doubling from two nodes.
    """
    found, left = list[_Limit](), 1.0
    for doubling in range(math.ceil(math.log2(first)), math.ceil(math.log2(max(first, last)))):
        nodes = 2 ** (doubling + 0.5)
        if doubling > 0 and nodes < last:
            shares = {one: min(0.5, share * doubling) for one, share in exponents.items()}
            found += [_Limit(nodes, one, left * share) for one, share in shares.items()]
            left *= 1 - sum(shares.values())
    return [_Limit(math.inf, 0.0, left), *found]


def _explain_times(
    growth: CostGrowth,
    drift: float,
    odd: int,
    limit: _Limit,
    levels: Array,
    precision: Array,
    likely: float,
) -> _Explanation:
    """Return how well a curve explains the times.

    Args:
        levels: What each time says about one node, shape (losses, times).
    """
    level = levels @ precision.sum(axis=1) / precision.sum()
    residuals = levels - level[:, None]
    pull = residuals @ precision
    likelihood = likely + _loss_weights() - (residuals * pull).sum(axis=1) / 2
    return _Explanation(growth, drift, odd, limit, likelihood, level, pull, precision)


def _loss_weights() -> Array:
    """Return the logarithms of the weights of ``_LOSSES`` before any time is known."""
    scores = np.log(_LOSSES[1:] / _USUAL_LOSS) / _LOSS_SPREAD
    weights = np.exp(-(scores**2) / 2)
    shares = np.concatenate([[_NO_LOSS], (1 - _NO_LOSS) * weights / weights.sum()])
    return np.asarray(np.log(shares))


def _weigh_curves(scaling: Scaling, found: Sequence[_Explanation]) -> Scaling:
    """Return the model with what explains the times well enough, and its weights."""
    logarithms = np.array([one.likelihood for one in found])
    weights = np.exp(logarithms - logarithms.max())
    weights /= weights.sum()
    odd = {
        size: sum(weights[place].sum() for place, one in enumerate(found) if one.odd == index)
        for index, size in enumerate(scaling.sizes)
    }
    kept = [place for place, each in enumerate(weights) if each.sum() > _NEGLIGIBLE]
    weights = weights[kept]
    return replace(
        scaling,
        doubtful=tuple(size for size, share in odd.items() if share > 1 / 2),
        explanations=tuple(found[place] for place in kept),
        weights=weights / weights.sum(),
    )


def _quantile(weights: Array, means: Array, deviations: Array, share: float) -> float:
    """Return the value below which a mixture of normal distributions has ``share``."""
    there = weights > _NEGLIGIBLE * weights.max()
    weights, means, deviations = weights[there], means[there], deviations[there]
    goal = share * weights.sum()
    low, high = float((means - 6 * deviations).min()), float((means + 6 * deviations).max())
    while high - low > 1e-5:
        middle = (low + high) / 2
        if weights @ _normal((middle - means) / deviations) < goal:
            low = middle
        else:
            high = middle
    return (low + high) / 2


def _normal(scores: Array) -> Array:
    """Return the standard normal distribution (Zelen & Severo 1964, 26.2.17; error 8e-8)."""
    far = np.abs(scores)
    t = 1 / (1 + 0.2316419 * far)
    powers = 0.319381530, -0.356563782, 1.781477937, -1.821255978, 1.330274429
    tail = sum(factor * t ** (place + 1) for place, factor in enumerate(powers))
    above = np.exp(-(far**2) / 2) / math.sqrt(2 * math.pi) * tail
    return np.asarray(np.where(scores > 0, 1 - above, above))


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
    overlap: float = 0.0,
) -> Forecast:
    """Return the predicted time of an epoch from the parts of a step.

    Args:
        examples: Per epoch.
        algorithm: None for the fastest, which our communicator uses.
        tolerance: Relative error of the link; ``RATED`` if it was not measured.
        noise: Relative error of the rank's own work.
        overlap: The largest share of compute under which an exchange may run, if that of ``work``
            was not measured; it may then run under none.
    """
    each = work.batch if batch is BatchPolicy.PER_RANK else work.batch / shape.ranks
    steps = examples / (each * shape.ranks)

    def took(link: float, own: float, spread: float, hidden: float) -> float:
        there = replace(shape, link=replace(shape.link, bandwidth=shape.link.bandwidth * link))
        done = replace(work, spread=spread, hidden=hidden)
        parts = step(done, there, batch=each, coding=coding, algorithm=algorithm)
        alone = parts.compute + parts.data + parts.other
        return steps * (parts.total + own * alone)

    sure = SURE * noise
    return Forecast(
        shape.nodes,
        took(1.0, 0.0, work.spread, work.hidden),
        took(1 + tolerance, -sure, 0.0, max(overlap, work.hidden)),
        took(1 - tolerance, sure, max(2 * work.spread, noise), 0.0 if overlap else work.hidden),
    )
