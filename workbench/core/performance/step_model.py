"""Model how long one step of data-parallel training takes, part by part.

A step is each rank's own work, waiting for the slowest rank, and the part of the gradient exchange
that is not hidden under the work. Nothing here is fitted to measured tables.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from statistics import NormalDist

from workbench.core.performance.exchange_model import (
    MEMORY,
    PLAIN,
    Algorithm,
    Coding,
    Link,
    choose,
    gathering,
    seconds,
)

# The part of the backward pass that can hide an exchange whose buckets are sent when complete: all
# but that of the first layers.
EARLY = 0.9
# If the duration of the backward pass is unknown, it is two thirds of the compute.
OVERLAPPED = EARLY * 2 / 3
# With double buffering an exchange can use all of the next step's compute.
DOUBLE_BUFFERED = 1.0
_GRID = 0.1
_REACH = 80


@dataclass(frozen=True)
class Work:
    """The work of one rank in a step; in seconds, except ``nbytes``, ``messages`` and shares.

    Args:
        compute: Forward, backward and update, with ``batch`` examples.
        nbytes: Of gradients.
        batch: Examples per step of one rank.
        data: Waiting for the next batch of data.
        other: Extensions, and everything else between two steps.
        messages: Number of pieces in which the gradients are exchanged, one after another.
        spread: Standard deviation of a rank's compute, as a share of it.
        hidden: Share of ``compute`` that can hide an exchange.
    """

    compute: float
    nbytes: float
    batch: float = 1.0
    data: float = 0.0
    other: float = 0.0
    messages: int = 1
    spread: float = 0.0
    hidden: float = 0.0

    @property
    def own(self) -> float:
        """Seconds of a step of a single rank."""
        return self.compute + self.data + self.other

    def computing(self, batch: float) -> float:
        """Return the seconds of compute for so many examples."""
        return self.compute * batch / self.batch


@dataclass(frozen=True)
class WorldShape:
    """The number of ranks, and their links."""

    nodes: int
    link: Link
    ranks_per_node: int = 1
    memory: Link = MEMORY

    @property
    def ranks(self) -> int:
        """Return the size of the world."""
        return self.nodes * self.ranks_per_node


@dataclass(frozen=True)
class Step:
    """Seconds of one step; ``exchange`` is all of it, ``exposed`` the part that is not hidden.

    Args:
        waiting: For the slowest rank.
        coding: Encoding and decoding.
    """

    compute: float
    exposed: float
    waiting: float
    coding: float
    data: float
    other: float
    exchange: float

    @property
    def total(self) -> float:
        """Return the seconds from one step to the next."""
        return self.compute + self.exposed + self.waiting + self.coding + self.data + self.other


def step(
    work: Work,
    shape: WorldShape,
    *,
    batch: float | None = None,
    coding: Coding = PLAIN,
    algorithm: Algorithm | None = None,
) -> Step:
    """Return the parts of a step on every rank of ``shape``.

    Args:
        batch: Examples per step of one rank, if it is not that of ``work``.
        algorithm: None for the fastest.
    """
    compute = work.computing(work.batch if batch is None else batch)
    if shape.ranks <= 1:
        return Step(compute, 0.0, 0.0, 0.0, work.data, work.other, 0.0)
    exchange = exchanging(work.nbytes, shape, work.messages, coding, algorithm)
    coded = coding.seconds(work.nbytes, shape.ranks)
    hidden = min(exchange + coded, work.hidden * compute)
    return Step(
        compute=compute,
        exposed=exchange - min(exchange, hidden),
        waiting=work.spread * compute * expected_maximum(shape.ranks),
        coding=max(0.0, coded - max(0.0, hidden - exchange)),
        data=work.data,
        other=work.other,
        exchange=exchange,
    )


def exchanging(
    nbytes: float,
    shape: WorldShape,
    messages: int = 1,
    coding: Coding = PLAIN,
    algorithm: Algorithm | None = None,
) -> float:
    """Return the seconds until all ranks have the sum of their gradients.

    Args:
        messages: Number of equal pieces, one after another: each has its latency.
    """
    piece = nbytes * coding.ratio / messages
    where = (shape.nodes, shape.ranks_per_node, shape.link, shape.memory)
    if not coding.sums:
        return messages * gathering(piece, *where)
    return messages * seconds(algorithm or choose(piece, *where), piece, *where)


@lru_cache(maxsize=4096)
def expected_maximum(count: int) -> float:
    """Return the expected maximum of ``count`` independent standard normal values.

    ``∫₀^∞ (1 − Φ(x)ⁿ) dx − ∫_{−∞}^0 Φ(x)ⁿ dx``, by the trapezoidal rule: 0.564 for two, 1.03 for
    four, 1.42 for eight. All ranks wait for the one whose compute took longest.
    """
    if count <= 1:
        return 0.0
    below = math.fsum(share**count for share in _shares()[:_REACH])
    above = math.fsum(1.0 - share**count for share in _shares()[_REACH + 1 :])
    middle = 0.5**count
    return _GRID * (above + (1.0 - middle) / 2 - below - middle / 2)


@lru_cache(maxsize=1)
def _shares() -> tuple[float, ...]:
    normal = NormalDist()
    return tuple(normal.cdf(_GRID * place) for place in range(-_REACH, _REACH + 1))
