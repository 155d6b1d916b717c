"""Average a bucket in compressed form; what a code loses is added to the next step's gradient.

Each rank adds up one part: it gets that part from all others in coded form, and sends the coded
mean back, so that every rank reads the same bytes. Both errors are kept where they arise and fed
back, as in Tang et al., "DoubleSqueeze" (2019).
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from typing import Protocol

import numpy

from workbench.core.exchange import Codec
from workbench.engine.exchange.codecs import BLOCK, elementwise, wire_bytes
from workbench.engine.exchange.finite import is_suspect
from workbench.engine.exchange.transport import Array, Transport

_GIVE, _RETURN, _SPARSE = 31, 32, 33
TOP_SHARE = 0.02
_SAMPLE = 1 << 14


class Compressed(Protocol):
    """A way to average one buffer of single precision, with what it remembers of it."""

    error: float
    """Norm of what was lost, over the norm of what was to be sent; of the last ``mean``."""

    nbytes: int
    """What a rank sent in the last ``mean``."""

    def mean(self, buffer: Array, *, measure: bool) -> bool:
        """Replace ``buffer`` by its mean over the ranks; false if some number was not finite.

        Args:
            measure: Whether to find the error.
        """
        ...


class Coded:
    """An element-by-element code.

    Args:
        size: Elements of the buffer.
    """

    def __init__(self, transport: Transport, codec: Codec, size: int) -> None:
        self._transport, self._code = transport, elementwise(codec)
        ranks = transport.size
        borders = [size * part // ranks for part in range(ranks + 1)]
        self._parts = [slice(a, b) for a, b in itertools.pairwise(borders)]
        own = self._parts[transport.rank]
        length = own.stop - own.start
        self._lost = numpy.zeros(size, "f4")
        self._lost_mean = numpy.zeros(length, "f4")
        sizes = [wire_bytes(self._code, part.stop - part.start) for part in self._parts]
        self._wires = [numpy.empty(nbytes, "u1") for nbytes in sizes]
        self._came = [numpy.empty(sizes[transport.rank], "u1") for _ in range(ranks)]
        self._room = numpy.empty(BLOCK, "f4")
        self.error = 0.0
        self.nbytes = 0

    def mean(self, buffer: Array, *, measure: bool) -> bool:
        """Replace ``buffer`` by its mean."""
        transport, rank, size = self._transport, self._transport.rank, self._transport.size
        others = [(rank + step) % size for step in range(1, size)]
        coming = [transport.receive(self._came[other], other, _GIVE) for other in others[::-1]]
        numpy.add(buffer, self._lost, buffer)
        finite, going = True, []
        for part in [*others, rank]:
            finite &= self._encode(buffer[self._parts[part]], self._parts[part], self._wires[part])
            if part != rank:
                going += transport.send(self._wires[part], part, _GIVE)
        if measure:
            self.error = math.sqrt(_square(self._lost) / (_square(buffer) or 1.0))
        for requests in coming:
            transport.settle_all(requests)
        transport.settle_all(going)
        own = self._wires[rank]
        self._add_up(buffer[self._parts[rank]], [self._came[other] for other in others], own)
        coming = [transport.receive(self._wires[other], other, _RETURN) for other in others[::-1]]
        going = [one for other in others for one in transport.send(own, other, _RETURN)]
        for other, requests in zip(others[::-1], coming, strict=True):
            transport.settle_all(requests)
            self._decode(self._wires[other], buffer[self._parts[other]])
        transport.settle_all(going)
        self.nbytes = sum(self._wires[other].nbytes + own.nbytes for other in others)
        return finite

    def _encode(self, values: Array, place: slice, wire: Array) -> bool:
        lost, finite = self._lost[place], True
        for block, coded in self._blocks(len(values)):
            finite &= self._code_block(values[block], lost[block], wire[coded])
        return finite

    def _code_block(self, values: Array, lost: Array, wire: Array) -> bool:
        if is_suspect(values):
            wire[:] = 0
            lost[:] = 0
            return False
        self._code.encode(values, wire)
        self._code.decode(wire, lost)
        numpy.subtract(values, lost, lost)
        return True

    def _add_up(self, total: Array, came: list[Array], own: Array) -> None:
        """Leave the mean in ``total`` as all ranks will read it, and its code in ``own``."""
        factor = numpy.float32(1 / self._transport.size)
        for block, coded in self._blocks(len(total)):
            sum_, lost = total[block], self._lost_mean[block]
            room = self._room[: len(sum_)]
            self._code.decode(own[coded], sum_)
            for wire in came:
                self._code.decode(wire[coded], room)
                numpy.add(sum_, room, sum_)
            numpy.multiply(sum_, factor, sum_)
            numpy.add(sum_, lost, sum_)
            self._code.encode(sum_, own[coded])
            self._code.decode(own[coded], room)
            numpy.subtract(sum_, room, lost)
            numpy.copyto(sum_, room)

    def _decode(self, wire: Array, values: Array) -> None:
        for block, coded in self._blocks(len(values)):
            self._code.decode(wire[coded], values[block])

    def _blocks(self, size: int) -> Iterator[tuple[slice, slice]]:
        place = 0
        for start in range(0, size, BLOCK):
            stop = min(size, start + BLOCK)
            nbytes = wire_bytes(self._code, stop - start)
            yield slice(start, stop), slice(place, place + nbytes)
            place += nbytes


class TopShare:
    """The largest fiftieth, and where they are (Aji and Heafield 2017); sent to all."""

    def __init__(self, transport: Transport, size: int) -> None:
        self._transport = transport
        self._count = max(1, math.ceil(size * TOP_SHARE)) if size else 0
        self._lost = numpy.zeros(size, "f4")
        self._size = size
        kind = numpy.dtype([("place", "u4"), ("value", "f4")])
        self._sent = [numpy.zeros(self._count, kind) for _ in range(transport.size)]
        self._sizes = numpy.empty(size, "f4")
        self._random = numpy.random.default_rng(transport.rank)
        self.error = 0.0
        self.nbytes = 8 * self._count * (transport.size - 1)

    def mean(self, buffer: Array, *, measure: bool) -> bool:
        """Replace ``buffer`` by its mean."""
        if not self._size:
            return True
        transport, rank, size = self._transport, self._transport.rank, self._transport.size
        numpy.add(buffer, self._lost, buffer)
        others = [(rank + step) % size for step in range(1, size)]
        coming = [
            request
            for other in others
            for request in transport.receive(self._sent[other].view("u1"), other, _SPARSE)
        ]
        finite = not is_suspect(buffer)
        chosen = self._choose(buffer) if finite else numpy.zeros(0, numpy.intp)
        own = self._sent[rank]
        own["place"], own["value"] = 0, 0
        own["place"][: len(chosen)], own["value"][: len(chosen)] = chosen, buffer[chosen]
        going = [
            request
            for other in others
            for request in transport.send(own.view("u1"), other, _SPARSE)
        ]
        numpy.copyto(self._lost, buffer if finite else 0)
        self._lost[chosen] = 0
        if measure:
            self.error = math.sqrt(_square(self._lost) / (_square(buffer) or 1.0))
        transport.settle_all(coming)
        buffer.fill(0)
        for sent in self._sent:  # in the order of the ranks, on all of them
            numpy.add.at(buffer, sent["place"], sent["value"])
        numpy.multiply(buffer, numpy.float32(1 / size), buffer)
        transport.settle_all(going)
        return finite

    def _choose(self, buffer: Array) -> Array:
        """Return the places of the largest; a sample tells about where they begin."""
        sizes = numpy.abs(buffer, out=self._sizes)
        if self._size <= 4 * _SAMPLE:
            return numpy.argpartition(sizes, self._size - self._count)[-self._count :]
        sample = sizes[self._random.integers(0, self._size, _SAMPLE)]
        begin = numpy.partition(sample, int(_SAMPLE * (1 - 1.3 * TOP_SHARE)))[
            int(_SAMPLE * (1 - 1.3 * TOP_SHARE))
        ]
        among = numpy.flatnonzero(sizes > begin)
        if len(among) <= self._count:
            return among
        return among[numpy.argpartition(sizes[among], -self._count)[-self._count :]]


def _square(values: Array) -> float:
    """Return the sum of squares, block by block so that no precision is lost."""
    blocks = (values[start : start + BLOCK] for start in range(0, len(values), BLOCK))
    return float(sum(float(numpy.dot(block, block)) for block in blocks))
