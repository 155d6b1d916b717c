"""Evaluate the step model for many shapes at once, in arrays.

It gives the numbers of ``exchange_model`` and ``step_model``, fast enough for a plan with hundreds
of types and sizes. Rows are node types, columns are numbers of nodes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from workbench.core.performance.exchange_model import LIBRARY_MARGIN, PLAIN, Coding, Link
from workbench.core.performance.step_model import Work, expected_maximum

Array = NDArray[np.float64]
_MOST_POWERS = 20  # ranks up to a million


@dataclass(frozen=True)
class GridTypes:
    """The properties of node types, one value each.

    Args:
        bandwidth: Between nodes, in bytes per second.
        ranks: Per node.
        speed: Of compute, relative to the measured one.
    """

    bandwidth: Array
    ranks: NDArray[np.int64]
    speed: Array


@dataclass(frozen=True)
class _Shapes:
    """All types with all sizes, for messages of some bytes."""

    nodes: Array
    per_node: Array
    bandwidth: Array
    latency: float
    reduce: float
    memory: Link

    @property
    def ranks(self) -> Array:
        return self.nodes * self.per_node

    def over_link(self, nbytes: Any) -> Array:
        return np.asarray(self.latency + nbytes / self.bandwidth)

    def over_memory(self, nbytes: Any) -> Array:
        return np.asarray(self.memory.latency + nbytes / self.memory.bandwidth)

    def slowest(self, nbytes: Any) -> Array:
        link = np.where(self.nodes > 1, self.over_link(nbytes), 0.0)
        memory = np.where(self.per_node > 1, self.over_memory(nbytes), 0.0)
        return np.maximum(link, memory)


def step_seconds(
    work: Work,
    types: GridTypes,
    nodes: NDArray[np.int64],
    link: Link,
    memory: Link,
    *,
    coding: Coding = PLAIN,
    batch: Array | None = None,
) -> tuple[Array, Array]:
    """Return the seconds of a rank's own work, and of the whole step, shape (types, nodes).

    Args:
        link: Used for latency and reduction; the bandwidth is that of each type.
        batch: Examples per rank and step, shape (types, nodes); None for those of ``work``.
    """
    size = (len(types.ranks), len(nodes))
    shapes = _Shapes(
        nodes=np.broadcast_to(nodes.astype(np.float64), size),
        per_node=np.broadcast_to(types.ranks[:, None].astype(np.float64), size),
        bandwidth=types.bandwidth[:, None],
        latency=link.latency,
        reduce=link.reduce,
        memory=memory,
    )
    share = 1.0 if batch is None else batch / work.batch
    compute = work.compute * share / types.speed[:, None]
    compute = np.broadcast_to(compute, size)
    own = compute + work.data + work.other
    several = shapes.ranks > 1
    exchange = np.where(several, _exchanging(work, shapes, coding), 0.0)
    times = 1 if coding.sums else np.maximum(1, shapes.ranks - 1)
    each = coding.fixed + work.nbytes * (coding.encode + times * coding.decode)
    coded = np.where(several, each, 0.0)
    beneath = np.minimum(exchange + coded, work.hidden * compute)
    waiting = work.spread * compute * _late(shapes.ranks)
    return own, own + exchange + coded - beneath + waiting


def _exchanging(work: Work, shapes: _Shapes, coding: Coding) -> Array:
    piece = work.nbytes * coding.ratio / work.messages
    if not coding.sums:
        return np.asarray(work.messages * (shapes.ranks - 1) * shapes.slowest(piece))
    ring = _ring(piece, shapes)
    library = np.minimum(*_rounds(piece, shapes))
    ours = np.where(shapes.per_node > 1, _hierarchical(piece, shapes), ring)
    asked = np.stack([ours, library / LIBRARY_MARGIN])
    took = np.stack([ours, library])
    chosen = np.take_along_axis(took, asked.argmin(axis=0)[None], axis=0)[0]
    return np.asarray(work.messages * np.where(shapes.nodes > 1, chosen, library))


def _ring(nbytes: float, shapes: _Shapes) -> Array:
    piece = nbytes / shapes.ranks
    return (shapes.ranks - 1) * (2 * shapes.slowest(piece) + piece / shapes.reduce)


def _rounds(nbytes: float, shapes: _Shapes) -> tuple[Array, Array]:
    """Return the seconds of recursive doubling, and of halving and doubling."""
    ranks = shapes.ranks
    power = np.exp2(np.floor(np.log2(ranks)))
    even = power == ranks
    near = np.where(even, shapes.per_node, np.floor(shapes.per_node / 2))
    crosses = (shapes.nodes > 1) & (shapes.per_node % 2 == 1)
    via = np.where(crosses, shapes.over_link(nbytes), shapes.over_memory(nbytes))
    fold = np.where(even, 0.0, 2 * via + nbytes / shapes.reduce)
    doubling, halving = fold.copy(), fold.copy()
    part = nbytes
    for exponent in range(min(_MOST_POWERS, int(np.log2(power.max(initial=1.0))))):
        distance = 2.0**exponent
        part /= 2
        there = distance < power
        inside = (shapes.nodes == 1) | (2 * distance <= near)
        doubling += np.where(there, _hop(nbytes, distance, inside, shapes), 0.0)
        halving += np.where(there, _hop(part, distance, inside, shapes, back=True), 0.0)
    return doubling, halving


def _hop(
    nbytes: float, distance: float, inside: Any, shapes: _Shapes, *, back: bool = False
) -> Array:
    flows = np.minimum(distance, shapes.per_node)
    moved = np.where(inside, shapes.over_memory(nbytes), shapes.over_link(nbytes * flows))
    return np.asarray((2 if back else 1) * moved + nbytes / shapes.reduce)


def _hierarchical(nbytes: float, shapes: _Shapes) -> Array:
    part = nbytes / shapes.per_node
    within = (shapes.per_node - 1) * (2 * shapes.over_memory(part) + part / shapes.memory.reduce)
    between = 2 * (shapes.nodes - 1) * shapes.over_link(nbytes / shapes.nodes)
    return within + between + (shapes.nodes - 1) / shapes.nodes * part / shapes.reduce


def _late(ranks: Array) -> Array:
    counts, places = np.unique(ranks, return_inverse=True)
    late = np.array([expected_maximum(int(count)) for count in counts])
    return np.asarray(late[places].reshape(ranks.shape))
