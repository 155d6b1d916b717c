"""Measure the cost of a codec: its computation, and its exchange beside an exact one."""

from __future__ import annotations

import itertools
import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy

from workbench.core.performance.exchange_model import Codec
from workbench.engine.exchange.compressed import (
    SPARSE,
    CodedRing,
    Compressed,
    RoundedRing,
    TopShare,
)
from workbench.engine.exchange.powersgd import Mean, PowerSgd
from workbench.engine.exchange.reducer import Reducer
from workbench.engine.exchange.transport import Array

TRIAL_BYTES = 8 << 20
"""Bytes of gradients in a comparison: 80 ms at 1.44 Gbit/s."""

_TRIES = 3


@dataclass(frozen=True)
class CostTrial:
    """Seconds of the same exchange with and without a codec, on the slowest rank.

    Args:
        nbytes: Of the gradients.
        plain: Without a codec.
        coded: With it, coding included.
        coding: The codec's own time on a core.
        sent: Bytes that a rank sent with the codec.
    """

    nbytes: int
    plain: float
    coded: float
    coding: float
    sent: int

    @property
    def pays(self) -> bool:
        """Whether the codec saves time."""
        return self.coded < self.plain


def build_codec(
    codec: Codec,
    transport: Any,
    shapes: Sequence[Sequence[int]],
    rank: int,
    mean: Mean,
    *,
    warm: bool = False,
) -> Compressed:
    """Return the codec for one buffer of gradients.

    Args:
        rank: Of PowerSGD's approximation.
        mean: Averages exactly.
        warm: Whether to start as after its first steps.
    """
    if codec is Codec.POWERSGD:
        return PowerSgd(transport, shapes, rank, mean)
    size = sum(math.prod(shape) for shape in shapes)
    if codec is Codec.TOPK:
        return TopShare(transport, size, warm=warm)
    if codec is Codec.FP16:
        return RoundedRing(transport, size)
    return CodedRing(transport, codec, size)


def run_trial(
    reducer: Reducer, codec: Codec, shapes: Sequence[Sequence[int]], rank: int
) -> CostTrial:
    """Exchange some of the gradients with and without a codec, alternately; collective.

    Args:
        shapes: Of the gradients that the codec would compress; not empty.
    """
    some = sample(shapes)
    draw = numpy.random.default_rng(reducer.transport.rank)
    buffer = draw.standard_normal(sum(math.prod(shape) for shape in some), "f4")

    def mean(flat: Array) -> None:
        reducer.mean([flat])

    coded = build_codec(codec, reducer.transport, some, rank, mean, warm=True)
    ways: tuple[Callable[[], object], ...] = (
        lambda: reducer.mean([buffer]),
        lambda: coded.mean(buffer, measure=False),
    )
    took = [math.inf, math.inf]
    for number in range(_TRIES):
        for way, do in enumerate(ways):
            reducer.transport.comm.Barrier()
            took[way] = min(took[way], _seconds(do)) if number else took[way]
    plain, through = (reducer.transport.largest(one) for one in took)
    return CostTrial(buffer.nbytes, plain, through, coded.coding, coded.nbytes)


def sample(shapes: Sequence[Sequence[int]]) -> list[tuple[int, ...]]:
    """Return enough of the shapes for a trial; a single larger one is cut by rows."""
    found: list[tuple[int, ...]] = []
    left = TRIAL_BYTES // 4
    for shape in shapes:
        if math.prod(shape) <= left:
            found.append(tuple(shape))
            left -= math.prod(shape)
    if found:
        return found
    row = math.prod(shapes[0][1:])
    return [(max(1, TRIAL_BYTES // 4 // row), *shapes[0][1:])]


def coding_seconds(
    codec: Codec, rank: int, ranks: int, shapes: Sequence[Sequence[int]] = ((300, 800),)
) -> float:
    """Measure the core seconds per element that one of ``ranks`` spends in an exchange.

    It runs the exchange's own code; messages take no time.
    """
    size = sum(math.prod(shape) for shape in shapes)
    values = numpy.random.default_rng(0).standard_normal(size, "f4")
    coded = build_codec(codec, _Silent(ranks, size), shapes, rank, lambda flat: None, warm=True)
    buffer = numpy.empty_like(values)

    ends = itertools.accumulate((math.prod(shape) for shape in shapes), initial=0)
    gradients = [values[a:b] for a, b in itertools.pairwise(ends)]

    def once() -> float:
        start = time.thread_time()  # other processes may share the core
        coded.mean(buffer, measure=False, gradients=gradients)
        return time.thread_time() - start

    once()  # imports and allocates
    return min(once() for _ in range(_TRIES)) / size


def coded_bytes(codec: Codec, rank: int, ranks: int, shapes: Sequence[Sequence[int]]) -> int:
    """Return the bytes of gradients that one of ``ranks`` sends in a usual step."""
    buffer = numpy.zeros(sum(math.prod(shape) for shape in shapes), "f4")
    silent = _Silent(ranks, len(buffer))
    coded = build_codec(codec, silent, shapes, rank, lambda flat: None, warm=True)
    coded.mean(buffer, measure=False)
    return coded.nbytes


class _Silent:
    """A transport without peers, and its own communicator: receives return zeros at once."""

    def __init__(self, ranks: int, elements: int) -> None:
        self.rank, self.size, self.comm = 0, ranks, self
        self._elements = elements

    def settle(self, request: Any) -> None:
        pass

    def settle_all(self, requests: Any) -> None:
        pass

    def receive(self, message: Array, source: int, tag: int) -> list[Any]:
        """Return zeros, for TopShare at scattered places: adding at one place would be faster."""
        if tag != SPARSE:
            message.fill(0)
            return []
        sent = message.view([("place", "u4"), ("value", "f4")])
        sent["place"] = numpy.linspace(0, self._elements - 1, len(sent))
        sent["value"] = 0
        return []

    def send(self, message: Array, to: int, tag: int) -> list[Any]:
        return []

    def allgather(self, value: Any) -> list[Any]:
        return [value]


def _seconds(do: Callable[[], object]) -> float:
    start = time.perf_counter()
    do()
    return time.perf_counter() - start
