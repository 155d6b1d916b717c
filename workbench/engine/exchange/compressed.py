"""Average a compressed bucket, with error feedback into the next step.

All ranks decode the same bytes. Every compression error is kept where it arises and added to the
next step, that of the mean too, as in Tang et al., "DoubleSqueeze" (2019). Only that of half
precision, at most 2^-11 of a number, is not: to keep it takes memory, and time without PyTorch.
"""

from __future__ import annotations

import itertools
import math
import time
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import accumulate
from typing import Any, Protocol

import numpy

from workbench.core.performance.exchange_model import Codec
from workbench.engine.exchange.codecs import BLOCK, UNIT, build_element_codec, wire_bytes
from workbench.engine.exchange.nonfinite import is_suspect
from workbench.engine.exchange.transport import PIECES, Array, Transport

_GIVE, _RETURN, SPARSE = 31, 32, 33
# Units that may arrive before one of them is decoded.
_DEPTH = 16
TOP_SHARE = 0.02
FIRST_SHARE, FIRST_STEPS = 0.0625, 100
"""The share that is sent first, and the steps until the usual share (Lin et al. 2018, 3.3). A
hundredth from the first step on cost small networks a quarter of a point of accuracy."""

_SAMPLE = 1 << 14


class Compressed(Protocol):
    """A method to average one buffer of single precision, with its error feedback."""

    error: float
    """Norm of the compression error over the norm of the input, in the last ``mean``."""

    nbytes: int
    """Bytes that a rank sent in the last ``mean``."""

    coding: float
    """Seconds of the last ``mean`` in which this rank did not wait for others."""

    def mean(
        self,
        buffer: Array,
        *,
        measure: bool,
        gradients: Sequence[Array] | None = None,
        in_place: bool = False,
    ) -> bool:
        """Replace ``buffer`` by its mean over the ranks; false if a number was not finite.

        Args:
            measure: Whether to compute the compression error.
            gradients: The values, one array after the other, if they are not in ``buffer`` yet.
            in_place: Whether the gradients, contiguous arrays then, get the mean, and ``buffer``
                only may; else they are left as they are.
        """
        ...

    def state(self) -> dict[str, Any]:
        """Return what is kept from step to step; ``lost`` is the error feedback, if any."""
        ...

    def restore(self, state: dict[str, Any]) -> None:
        """Continue with such a state; only ``lost`` is always there, and may not be needed."""
        ...

    def align(self) -> None:
        """Continue with what rank 0 keeps, as far as ranks must agree; collective."""
        ...


class MessageWait:
    """Waits for messages, and measures the remaining time."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport
        self._begun = self._waited = 0.0

    def begin(self) -> None:
        """Start to measure."""
        self._begun, self._waited = time.perf_counter(), 0.0

    def settle(self, request: Any) -> None:
        """Wait for a message."""
        start = time.perf_counter()
        self._transport.settle(request)
        self._waited += time.perf_counter() - start

    def settle_all(self, requests: Iterable[Any]) -> None:
        """Wait for messages."""
        for request in requests:
            self.settle(request)

    def otherwise(self) -> float:
        """Return the seconds since ``begin`` without a wait."""
        return time.perf_counter() - self._begun - self._waited


class CodedRing:
    """An element-by-element codec on a ring.

    Each rank decodes the data that passes it, adds to it and encodes the sum; the error of each
    encoding is kept here. Only neighbours communicate: with eight ranks and changing partners,
    flows met at the receivers and each lost half of its time.

    Args:
        size: Elements of the buffer.
    """

    def __init__(self, transport: Transport, codec: Codec, size: int) -> None:
        self._transport = transport
        self._code = build_element_codec(codec)
        self._lost = self._first_error(size)
        ranks = transport.size
        borders = [size * part // ranks for part in range(ranks + 1)]
        unit = _unit(size // ranks)
        self._blocks = [
            [self._block(start, min(b, start + unit)) for start in range(a, b, unit)]
            for a, b in itertools.pairwise(borders)
        ]
        self._means = [
            numpy.empty_like(wire)
            for step in range(ranks - 1)
            for _, wire in self._blocks[(transport.rank - step) % ranks]
        ]
        self._came = [numpy.empty(wire_bytes(self._code, unit), "u1") for _ in range(_DEPTH)]
        self._values, self._room = numpy.empty(unit, "f4"), numpy.empty(unit, "f4")
        self._measures, self._square = False, 0.0
        self.error = 0.0
        self.nbytes = sum(wire.nbytes for part in self._blocks for _, wire in part)
        self.nbytes = int(self.nbytes * 2 * (ranks - 1) / ranks)
        self.coding = 0.0
        self._waiting = MessageWait(transport)

    def mean(
        self,
        buffer: Array,
        *,
        measure: bool,
        gradients: Sequence[Array] | None = None,
        in_place: bool = False,
    ) -> bool:
        """Replace ``buffer``, or the gradients, by the mean."""
        transport, rank, size = self._transport, self._transport.rank, self._transport.size
        right, left = (rank + 1) % size, (rank - 1) % size
        self._waiting.begin()
        adding = [one for step in range(1, size) for one in self._blocks[(rank - step) % size]]
        rooms = [self._came[k % _DEPTH][: wire.nbytes] for k, (_, wire) in enumerate(adding)]
        given = FlatParts([buffer] if gradients is None else gradients)
        taken = given if in_place else FlatParts([buffer])
        self._measures, self._square = measure, 0.0
        coming = [transport.receive(room, left, _GIVE) for room in rooms[:_DEPTH]]
        gathering = [transport.receive(wire, left, _RETURN) for wire in self._means]
        finite, going = True, []
        for place, wire in self._blocks[rank]:
            finite &= self._encode(self._load(given, place), place, wire)
            going += transport.send(wire, right, _GIVE)
        last = len(adding) - len(self._blocks[right])
        for k, (place, wire) in enumerate(adding):
            values = self._load(given, place)
            self._waiting.settle_all(coming[k])
            if k < last:
                finite &= self._encode(values, place, wire, came=rooms[k])
            else:
                with taken.filling(place, self._room) as mean:
                    finite &= self._encode(values, place, wire, rooms[k], mean, ranks=size)
            if k + _DEPTH < len(adding):
                coming.append(transport.receive(rooms[k + _DEPTH], left, _GIVE))
            going += transport.send(wire, right, _GIVE if k < last else _RETURN)
        self._gather(taken, gathering)
        self._waiting.settle_all(going)
        self.coding = self._waiting.otherwise()
        if measure:
            self.error = math.sqrt(self._measure_error() / (self._square or 1.0))
        return finite

    def state(self) -> dict[str, Any]:
        """Return what is kept from step to step."""
        return {"lost": self._lost}

    def restore(self, state: dict[str, Any]) -> None:
        """Continue with such a state."""
        numpy.copyto(self._lost, state["lost"])

    def align(self) -> None:
        """Each block has its scale with it: ranks need not agree on anything."""

    def _gather(self, taken: FlatParts, coming: list[list[Any]]) -> None:
        """Receive the means of the other parts, and pass them on."""
        rank, size = self._transport.rank, self._transport.size
        right = (rank + 1) % size
        places = [
            place for step in range(size - 1) for place, _ in self._blocks[(rank - step) % size]
        ]
        handed_on = len(places) - len(self._blocks[(rank + 2) % size])
        going = []
        for k, (place, wire) in enumerate(zip(places, self._means, strict=True)):
            self._waiting.settle_all(coming[k])
            if k < handed_on:
                going += self._transport.send(wire, right, _RETURN)
            with taken.filling(place, self._room) as mean:
                self._code.decode(wire, mean)
        self._waiting.settle_all(going)

    def _first_error(self, size: int) -> Array:
        """Return the error of all elements before the first step."""
        return numpy.zeros(size, "f4")

    def _measure_error(self) -> float:
        """Return the sum of squares of the compression error."""
        return _square(self._lost)

    def _load(self, given: FlatParts, place: slice) -> Array:
        """Return the sum of a block of the gradients and its error feedback, in the cache."""
        values, lost = self._values[: place.stop - place.start], self._lost[place]
        for part, at in given.within(place):
            numpy.add(lost[at], part, values[at])
        if self._measures:
            self._square += float(numpy.dot(values, values))
        return values

    def _encode(
        self,
        values: Array,
        place: slice,
        wire: Array,
        came: Array | None = None,
        mean: Array | None = None,
        ranks: int = 1,
    ) -> bool:
        """Encode a block, and keep its error; false, and zeros, if it is not finite.

        Args:
            came: What the ranks before have added up of it, if any.
            mean: With the last of them, becomes the decoded mean.
        """
        lost = self._lost[place]
        return self._code.encode(values, wire, came=came, lost=lost, mean=mean, ranks=ranks)

    def _block(self, start: int, stop: int) -> tuple[slice, Array]:
        return slice(start, stop), numpy.empty(wire_bytes(self._code, stop - start), "u1")


class RoundedRing(CodedRing):
    """Half precision on the ring, whose rounding is not fed back.

    Args:
        size: Elements of the buffer.
    """

    def __init__(self, transport: Transport, size: int) -> None:
        super().__init__(transport, Codec.FP16, size)
        self._rounding, self._missed_square = numpy.empty_like(self._values), 0.0

    def state(self) -> dict[str, Any]:
        """Nothing is kept."""
        return {}

    def restore(self, state: dict[str, Any]) -> None:
        """Nothing is kept."""

    def _first_error(self, size: int) -> Array:
        return numpy.empty(0, "f4")

    def _measure_error(self) -> float:
        missed, self._missed_square = self._missed_square, 0.0
        return missed

    def _load(self, given: FlatParts, place: slice) -> Array:
        """Return a block of the gradients, in the cache."""
        values = self._values[: place.stop - place.start]
        for part, at in given.within(place):
            numpy.copyto(values[at], part)
        if self._measures:
            self._square += float(numpy.dot(values, values))
        return values

    def _encode(
        self,
        values: Array,
        place: slice,
        wire: Array,
        came: Array | None = None,
        mean: Array | None = None,
        ranks: int = 1,
    ) -> bool:
        """Encode a block, and add up its error if that is measured."""
        lost = self._rounding[: len(values)] if self._measures else None
        finite = self._code.encode(values, wire, came=came, lost=lost, mean=mean, ranks=ranks)
        if lost is not None:
            self._missed_square += float(numpy.dot(lost, lost))
        return finite


class TopShare:
    """The largest 2 % of the values with their places (Aji and Heafield 2017); sent to all ranks.

    The first steps send more, each of them less than the one before.

    Args:
        warm: Whether these first steps are over.
    """

    def __init__(self, transport: Transport, size: int, *, warm: bool = False) -> None:
        self._transport = transport
        self._steps = FIRST_STEPS if warm else 0
        self._count = count_at(size, self._steps)
        self._lost = numpy.zeros(size, "f4")
        self._size = size
        kind = numpy.dtype([("place", "u4"), ("value", "f4")])
        self._rooms = [numpy.zeros(self._count, kind) for _ in range(transport.size)]
        self._sizes = numpy.empty(BLOCK, "f4")
        self._random = numpy.random.default_rng(transport.rank)
        self.error = 0.0
        self.nbytes = 8 * self._count * (transport.size - 1)
        self.coding = 0.0
        self._waiting = MessageWait(transport)

    def mean(
        self,
        buffer: Array,
        *,
        measure: bool,
        gradients: Sequence[Array] | None = None,
        in_place: bool = False,
    ) -> bool:
        """Replace ``buffer``, or the gradients, by the mean."""
        if not self._size:
            return True
        transport, rank, size = self._transport, self._transport.rank, self._transport.size
        right, left = (rank + 1) % size, (rank - 1) % size
        self._waiting.begin()
        self._count = count_at(self._size, self._steps)
        self._steps += 1
        self.nbytes = 8 * self._count * (size - 1)
        rooms = [room[: self._count] for room in self._rooms]
        wires = [rooms[(rank - step) % size].view("u1") for step in range(size)]
        coming = [transport.receive(wire, left, SPARSE) for wire in wires[1:]]
        lost, whole = self._lost, 0.0
        _add(lost, gradients if gradients is not None else (buffer,))
        finite = not is_suspect(lost)
        if not finite:
            lost.fill(0)
        chosen = self._choose(lost) if finite else numpy.zeros(0, numpy.intp)
        own = rooms[rank]
        own["place"], own["value"] = 0, 0
        own["place"][: len(chosen)], own["value"][: len(chosen)] = chosen, lost[chosen]
        going = transport.send(wires[0], right, SPARSE)
        if measure:
            whole = _square(lost)
        lost[chosen] = 0
        if measure:
            self.error = math.sqrt(_square(lost) / (whole or 1.0))
        for step, requests in enumerate(coming, 1):
            self._waiting.settle_all(requests)
            if step < size - 1:
                going += transport.send(wires[step], right, SPARSE)
        buffer.fill(0)
        for sent in rooms:  # in the order of the ranks, on all of them
            numpy.add.at(buffer, sent["place"], sent["value"] * numpy.float32(1 / size))
        if in_place and gradients is not None:
            FlatParts(gradients).fill(buffer)
        self._waiting.settle_all(going)
        self.coding = self._waiting.otherwise()
        return finite

    def state(self) -> dict[str, Any]:
        """Return what is kept from step to step."""
        return {
            "lost": self._lost,
            "steps": self._steps,
            "random": self._random.bit_generator.state,
        }

    def restore(self, state: dict[str, Any]) -> None:
        """Continue with such a state."""
        numpy.copyto(self._lost, state["lost"])
        self._steps = state.get("steps", self._steps)
        if "random" in state:
            self._random.bit_generator.state = state["random"]

    def align(self) -> None:
        """Continue at rank 0's step, which says how many values are sent; collective."""
        self._steps = self._transport.comm.bcast(self._steps)

    def _choose(self, values: Array) -> Array:
        """Return the places of the largest values; the threshold is estimated from a sample."""
        if self._size <= 4 * _SAMPLE:
            return numpy.argpartition(numpy.abs(values), self._size - self._count)[-self._count :]
        sample = numpy.abs(values[self._random.integers(0, self._size, _SAMPLE)])
        border = int(_SAMPLE * (1 - 1.3 * self._count / self._size))
        begin = numpy.partition(sample, border)[border]
        parts = []
        for start in range(0, self._size, BLOCK):  # in the cache
            block = values[start : start + BLOCK]
            sizes = numpy.abs(block, out=self._sizes[: len(block)])
            parts.append(numpy.flatnonzero(sizes > begin) + start)
        among = numpy.concatenate(parts)
        if len(among) <= self._count:
            return among
        return among[numpy.argpartition(numpy.abs(values[among]), -self._count)[-self._count :]]


def count_at(size: int, step: int) -> int:
    """Return how many numbers of ``size`` are sent in a step; the first step is 0."""
    past = min(1.0, step / FIRST_STEPS)
    return math.ceil(size * FIRST_SHARE * math.pow(TOP_SHARE / FIRST_SHARE, past))


def _unit(size: int) -> int:
    """Return the elements of ``size`` that are encoded at once: several units are pipelined."""
    return max(BLOCK, min(UNIT, size // PIECES // BLOCK * BLOCK))


def _add(lost: Array, gradients: Sequence[Array]) -> None:
    """Add the gradients to the error feedback."""
    start = 0
    for one in gradients:
        place = slice(start, start := start + one.size)
        numpy.add(lost[place].reshape(one.shape), one, lost[place].reshape(one.shape))


def _square(values: Array) -> float:
    """Return the sum of squares, block by block so that no precision is lost."""
    blocks = (values[start : start + BLOCK] for start in range(0, len(values), BLOCK))
    return float(sum(float(numpy.dot(block, block)) for block in blocks))


class FlatParts:
    """Arrays of one type that follow each other; what is written into one must be contiguous."""

    def __init__(self, arrays: Sequence[Array]) -> None:
        self._arrays = [array.reshape(-1) for array in arrays]
        self._starts = [0, *accumulate(len(array) for array in self._arrays)]

    def within(self, place: slice) -> Iterator[tuple[Array, slice]]:
        """Return the parts of a block: a view of each, and where in the block it is."""
        start, number = place.start, bisect_right(self._starts, place.start) - 1
        while start < place.stop:
            first, array = self._starts[number], self._arrays[number]
            stop = min(place.stop, first + len(array))
            at = slice(start - place.start, stop - place.start)
            yield array[start - first : stop - first], at
            start, number = stop, number + 1

    @contextmanager
    def filling(self, place: slice, room: Array) -> Iterator[Array]:
        """Give memory for a block, which has it afterwards: its own where it is in one piece.

        Args:
            room: As large as a block, or larger.
        """
        parts = [*self.within(place)]
        if len(parts) == 1:
            yield parts[0][0]
            return
        block = room[: place.stop - place.start]
        yield block
        for part, at in parts:
            numpy.copyto(part, block[at])

    def fill(self, values: Array) -> None:
        """Write all elements."""
        for array, start in zip(self._arrays, self._starts, strict=False):
            numpy.copyto(array, values[start : start + len(array)])
