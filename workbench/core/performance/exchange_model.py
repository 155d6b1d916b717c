"""Model how long an exchange of gradients takes, and choose the quickest algorithm.

The model is the one of latency and bandwidth: a message of ``m`` bytes takes ``α + m/β``, and a
rank adds ``γ`` bytes per second to its own. The sources of the formulas:

- R. Thakur, R. Rabenseifner, W. Gropp, "Optimization of Collective Communication Operations in
  MPICH", International Journal of High Performance Computing Applications 19 (2005).
- P. Patarasuk, X. Yuan, "Bandwidth optimal all-reduce algorithms for clusters of workstations",
  Journal of Parallel and Distributed Computing 69 (2009): at least 2(n−1)/n of the bytes must be
  moved.
- M. Cho et al., "BlueConnect", MLSys 2019: the hierarchy whose middle step all ranks share.

A ring gives each rank an equal part. The link from rank ``i`` then carries all parts twice but for
those of the next two ranks: ``2 − p[i+1] − p[i+2]`` of the bytes (the sums of part ``k`` end on the
rank before ``k``). With unequal parts one slow node sends and receives each byte once in place of
``2(n−1)/n`` times, which no order of an equal ring can give it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import pairwise

# Below this share of the usual rate a link is slow; others pass for equal, as measurements scatter.
SLOW = 0.6
_HALVINGS = 25

# Single precision, added in place by one core of a current machine.
REDUCTION = 4e9
# A library's choice is unknown beyond the tried sizes, so there it must be faster by this factor.
# Within them it may be slower by as much: trials are that uncertain, and ours runs in Python.
LIBRARY_MARGIN = 0.9
# The same beyond them within one node, where other programs on the cores slow down ours more.
MEMORY_MARGIN = 0.8
# From so many bytes on it must be faster between nodes at any size: it sends them after an answer,
# which may wait behind the bytes of the other direction. So 3 MB between two nodes at 1.44 Gbit/s
# took 17.4 ms in some exchanges and 21.6 in others of one world.
ANSWERED_BYTES = 2 << 20
_MARK = "codec "  # before the codec's name in a rank's report: 1 for the one in use
# TCP reaches this share of a link's rating: 1.38 of 1.44 Gbit/s.
CARRIED = 0.955


@dataclass(frozen=True)
class Link:
    """The connection between two ranks.

    Args:
        latency: Seconds, one way.
        bandwidth: Bytes per second in one direction, while all ranks of a node use it. The ranks of
            one node share its link to the network.
        reduce: Bytes per second that a rank adds up.
    """

    latency: float
    bandwidth: float
    reduce: float = REDUCTION

    def moving(self, nbytes: float) -> float:
        """Return the seconds of a message: ``α + m/β``."""
        return self.latency + nbytes / self.bandwidth


# Two processes of one machine over shared memory: 1 MB in 0.26 ms, 1 kB in 3 µs.
MEMORY = Link(2e-6, 4e9)


class Algorithm(StrEnum):
    """The algorithm of an allreduce."""

    RING = "ring"
    HIERARCHICAL = "hierarchical"
    MPI = "mpi"  # the library's own choice


@dataclass(frozen=True)
class AlgorithmTrial:
    """The measured seconds of an exchange of ``nbytes`` over all ranks."""

    algorithm: Algorithm
    nbytes: float
    seconds: float


class Codec(StrEnum):
    """The encoding of gradients in an exchange."""

    NONE = "none"
    FP16 = "fp16"
    BF16 = "bf16"
    INT8 = "int8"
    TOPK = "topk"
    POWERSGD = "powersgd"

    __hash__ = str.__hash__  # that of an enumeration runs in Python


_MARKS = {codec: f"{_MARK}{codec}" for codec in Codec}


def mark_codec(reported: dict[str, float], codec: Codec) -> None:
    """Add the codec of the gradients to a rank's report on its exchange."""
    mark = _MARKS[codec]
    if not reported.get(mark):
        reported.update({name: 0.0 for name in reported if name.startswith(_MARK)})
        reported[mark] = 1.0


def read_codec(reported: Mapping[str, float]) -> Codec | None:
    """Return the codec in a rank's report; None if our communicator is not used."""
    return next((codec for codec in Codec if reported.get(f"{_MARK}{codec}")), None)


@dataclass(frozen=True)
class Coding:
    """The costs of a codec as measured on a machine.

    Args:
        ratio: Bytes sent for each byte of gradients.
        encode: Seconds to encode each byte of gradients, on one rank.
        decode: Seconds to decode each byte of gradients, on one rank.
        fixed: Further seconds per step, whatever the size.
        sums: Whether gradients are summed during the exchange, with repeated coding if necessary;
            otherwise each rank gathers those of all others and decodes them one by one.
    """

    codec: Codec = Codec.NONE
    ratio: float = 1.0
    encode: float = 0.0
    decode: float = 0.0
    fixed: float = 0.0
    sums: bool = True

    def seconds(self, nbytes: float, ranks: int) -> float:
        """Return the seconds that one rank spends on encoding and decoding."""
        times = 1 if self.sums else max(1, ranks - 1)
        return self.fixed + nbytes * (self.encode + times * self.decode)


PLAIN = Coding()
# Defaults until they are measured: ResNet-50's gradients with error feedback, on one core of a
# virtual AMD EPYC, by `python -m benchmarks.scripts.exchange_codecs`. Encoding and decoding of
# partial sums by eight ranks is one cost. PowerSGD has rank 4; top-k sends an index with each
# number. The first three, compiled, were measured on a slower processor, and are divided by as
# much as PowerSGD takes longer there.
CODINGS = (
    PLAIN,
    Coding(Codec.FP16, 0.5, 0.19e-9, 0.0, 1e-4),
    Coding(Codec.BF16, 0.5, 0.24e-9, 0.0, 1e-4),
    Coding(Codec.INT8, 0.25, 0.2e-9, 0.0, 1e-4),
    Coding(Codec.TOPK, 0.04, 0.56e-9, 0.053e-9, 1e-4, sums=False),
    Coding(Codec.POWERSGD, 0.0129, 0.37e-9, 0.0, 1.3e-3),
)


def seconds(
    algorithm: Algorithm,
    nbytes: float,
    nodes: int,
    ranks_per_node: int,
    link: Link,
    memory: Link = MEMORY,
) -> float:
    """Return the seconds until all ranks have the sum of ``nbytes`` of each.

    Ranks are placed node by node. A single rank moves nothing.

    Args:
        link: Between two nodes.
        memory: Between two ranks of one node.
    """
    if nodes * ranks_per_node <= 1:
        return 0.0
    return _FORMULAS[algorithm](nbytes, nodes, ranks_per_node, link, memory)


def choose(
    nbytes: float,
    nodes: int,
    ranks_per_node: int,
    link: Link,
    memory: Link = MEMORY,
    trials: Sequence[AlgorithmTrial] = (),
) -> Algorithm:
    """Return the algorithm that is fastest by the model, for the arguments of ``seconds``.

    Within one node it is the library's own unless trials say otherwise.

    Args:
        trials: What was measured there. It corrects the model, which knows no cost of a message
            besides the link's latency.
    """
    if nodes <= 1 and not trials:
        return Algorithm.MPI
    shape = (nodes, ranks_per_node, link, memory)
    took = {
        one: corrected_seconds(one, nbytes, *shape, trials)
        for one in possible_algorithms(nodes, ranks_per_node)
    }
    was_tried = any(nbytes <= one.nbytes for one in trials)
    may_be_slower = was_tried and (nodes == 1 or nbytes < ANSWERED_BYTES)
    margin = LIBRARY_MARGIN if nodes > 1 else MEMORY_MARGIN
    took[Algorithm.MPI] *= LIBRARY_MARGIN if may_be_slower else 1 / margin
    return min(took, key=lambda one: took[one])


def possible_algorithms(nodes: int, ranks_per_node: int) -> tuple[Algorithm, ...]:
    """Return the algorithms to choose from.

    Between nodes with one rank each, the hierarchy is the ring. Within one node it is the exchange
    in shared memory.
    """
    is_ring = nodes > 1 and ranks_per_node == 1
    return (Algorithm.RING if is_ring else Algorithm.HIERARCHICAL, Algorithm.MPI)


def corrected_seconds(
    algorithm: Algorithm,
    nbytes: float,
    nodes: int,
    ranks_per_node: int,
    link: Link,
    memory: Link,
    trials: Sequence[AlgorithmTrial],
) -> float:
    """Return the modelled seconds plus what trials of the algorithm took in excess.

    The excess is interpolated between two sizes; beyond them it is that of the nearest. A trial may
    have been quicker than its bytes can be in the long run: after a pause many links let some pass
    at once.
    """
    shape = (nodes, ranks_per_node, link, memory)
    tried = sorted((one.nbytes, one.seconds) for one in trials if one.algorithm is algorithm)
    excess = [(size, took - seconds(algorithm, size, *shape)) for size, took in tried]
    predicted = seconds(algorithm, nbytes, *shape) + _interpolate(nbytes, excess)
    return max(predicted, _moving(algorithm, nbytes, nodes, ranks_per_node, link))


def _moving(
    algorithm: Algorithm, nbytes: float, nodes: int, ranks_per_node: int, link: Link
) -> float:
    """Return the seconds of the bytes alone on the nodes' links; the library may send fewest."""
    fewest = Algorithm.HIERARCHICAL if algorithm is Algorithm.MPI else algorithm
    alone, memory = Link(0.0, link.bandwidth, math.inf), Link(0.0, math.inf, math.inf)
    return seconds(fewest, nbytes, nodes, ranks_per_node, alone, memory)


def _interpolate(x: float, points: Sequence[tuple[float, float]]) -> float:
    """Return the value at ``x`` between points in ascending order; 0 without any."""
    if not points or x <= points[0][0]:
        return points[0][1] if points else 0.0
    for (left, low), (right, high) in pairwise(points):
        if x <= right:
            return low + (high - low) * (x - left) / (right - left)
    return points[-1][1]


def gathering(
    nbytes: float, nodes: int, ranks_per_node: int, link: Link, memory: Link = MEMORY
) -> float:
    """Return the seconds until all ranks have the ``nbytes`` of each, around a ring.

    ``(p−1)·(α + m/β)``: what cannot be summed during the exchange grows with the number of ranks.
    """
    ranks = nodes * ranks_per_node
    if ranks <= 1:
        return 0.0
    return (ranks - 1) * _slowest(nbytes, nodes, ranks_per_node, link, memory)


def _ring(nbytes: float, nodes: int, per_node: int, link: Link, memory: Link) -> float:
    """``2(p−1)·(α + m/pβ) + (p−1)/p·m/γ``; a node's link carries one message at a time."""
    ranks = nodes * per_node
    piece = nbytes / ranks
    moved = 2 * (ranks - 1) * _slowest(piece, nodes, per_node, link, memory)
    return moved + (ranks - 1) * piece / link.reduce


def _slowest(piece: float, nodes: int, per_node: int, link: Link, memory: Link) -> float:
    there = [link] * (nodes > 1) + [memory] * (per_node > 1)
    return max(one.moving(piece) for one in there)


def _doubling(nbytes: float, nodes: int, per_node: int, link: Link, memory: Link) -> float:
    """``log₂p·(α + m/β + m/γ)``, plus the costs of ranks beyond a power of two."""
    took = _fold(nbytes, nodes, per_node, link, memory)
    for distance in _distances(nodes * per_node):
        hop = _hop(nbytes, distance, nodes, per_node, link, memory)
        took += hop + nbytes / link.reduce
    return took


def _halving(nbytes: float, nodes: int, per_node: int, link: Link, memory: Link) -> float:
    """Rabenseifner's: ``2·log₂p·α + 2(p−1)/p·m/β + (p−1)/p·m/γ``, the largest part nearest."""
    took = _fold(nbytes, nodes, per_node, link, memory)
    part = nbytes
    for distance in _distances(nodes * per_node):
        part /= 2
        took += 2 * _hop(part, distance, nodes, per_node, link, memory) + part / link.reduce
    return took


def _library(nbytes: float, nodes: int, per_node: int, link: Link, memory: Link) -> float:
    """The faster of two that Thakur et al. give for MPI: doubling if small, halving if large.

    Three nodes: ``3m/β``, so busbw is 0.44 of the link; measured were 0.36, and 0.97 by a ring.
    """
    shape = (nodes, per_node, link, memory)
    return min(_doubling(nbytes, *shape), _halving(nbytes, *shape))


def _hierarchical(nbytes: float, nodes: int, per_node: int, link: Link, memory: Link) -> float:
    """Scatter sums within nodes, a ring between nodes for each part, gather within nodes.

    ``2(r−1)·(α' + m/rβ') + (r−1)/r·m/γ + 2(n−1)·(α + m/nβ) + (n−1)/n·m/rγ``.
    """
    part = nbytes / per_node
    within = 2 * (per_node - 1) * memory.moving(part) + (per_node - 1) * part / memory.reduce
    between = 2 * (nodes - 1) * link.moving(nbytes / nodes)
    return within + between + (nodes - 1) / nodes * part / link.reduce


def _distances(ranks: int) -> list[int]:
    return [2**power for power in range(ranks.bit_length() - 1)]


def _is_power(ranks: int) -> bool:
    return ranks & (ranks - 1) == 0


def _hop(
    nbytes: float, distance: int, nodes: int, per_node: int, link: Link, memory: Link
) -> float:
    """Return the seconds of one exchange with the rank at ``distance``, by all ranks at once.

    If ranks beyond a power of two are left out, neighbours are twice as far apart.
    """
    near = per_node if _is_power(nodes * per_node) else per_node // 2
    if nodes == 1 or 2 * distance <= near:
        return memory.moving(nbytes)
    return link.moving(nbytes * min(distance, per_node))


def _fold(nbytes: float, nodes: int, per_node: int, link: Link, memory: Link) -> float:
    """Return the cost of ranks beyond a power of two: they send all to a neighbour, and back."""
    if _is_power(nodes * per_node):
        return 0.0
    crosses = nodes > 1 and per_node % 2 == 1
    via = link if crosses else memory
    return 2 * via.moving(nbytes) + nbytes / link.reduce


_FORMULAS: dict[Algorithm, Callable[[float, int, int, Link, Link], float]] = {
    Algorithm.RING: _ring,
    Algorithm.HIERARCHICAL: _hierarchical,
    Algorithm.MPI: _library,
}


def ring_seconds(rates: Sequence[float], shares: Sequence[float]) -> float:
    """Return the seconds that the slowest link of a ring needs for each byte of the array.

    Args:
        rates: Bytes per second from each rank to the next.
        shares: Each rank's part of the array; together 1.
    """
    return max(load / rate for load, rate in zip(_loads(shares), rates, strict=True))


def equal_shares(ranks: int) -> tuple[float, ...]:
    """Return the parts of an ordinary ring."""
    return (1 / ranks,) * ranks


def ring_shares(rates: Sequence[float]) -> tuple[float, ...]:
    """Return the parts with which a ring takes the least time; equal ones unless a link is slow.

    Args:
        rates: As for `ring_seconds`; at least two.
    """
    ranks = len(rates)
    # One slow node makes two links slow, which may be most of them.
    usual = sorted(rates)[-max(1, ranks // 4)]
    if min(rates) >= SLOW * usual:
        return equal_shares(ranks)
    alike = [rate if rate < SLOW * usual else usual for rate in rates]
    low, high = 0.0, ring_seconds(alike, equal_shares(ranks))
    best = equal_shares(ranks)
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        shares = _least([max(0.0, 2 - middle * rate) for rate in alike])
        if sum(shares) <= 1:
            high, best = middle, shares
        else:
            low = middle
    left = (1 - sum(best)) / ranks
    return tuple(share + left for share in best)


def _loads(shares: Sequence[float]) -> list[float]:
    ranks = len(shares)
    return [2 - shares[(i + 1) % ranks] - shares[(i + 2) % ranks] for i in range(ranks)]


def _least(wanted: Sequence[float]) -> tuple[float, ...]:
    """Return the smallest parts, so that those after rank ``i`` and the next make ``wanted[i]``.

    From a given first part on, each part is the least that its link leaves to it; the sum of all
    is convex in the first.
    """
    low, high = 0.0, max(wanted)
    for _ in range(_HALVINGS):
        left, right = low + (high - low) / 3, high - (high - low) / 3
        if sum(_following(wanted, left)) <= sum(_following(wanted, right)):
            high = right
        else:
            low = left
    return _following(wanted, (low + high) / 2)


def _following(wanted: Sequence[float], first: float) -> tuple[float, ...]:
    """Return the least parts if that of rank 1 is ``first``."""
    ranks = len(wanted)
    parts = [first]  # of ranks 1, 2, …, and 0 as the last
    for link in range(ranks - 1):
        parts.append(max(0.0, wanted[link] - parts[-1]))
    parts[-1] = max(parts[-1], wanted[-1] - first)
    return (parts[-1], *parts[:-1])
