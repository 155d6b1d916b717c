"""Encode single precision in fewer bytes, element by element, and decode it."""

from __future__ import annotations

from typing import Protocol

import numpy

from workbench.core.performance.exchange_model import Codec
from workbench.engine.exchange.transport import Array

BLOCK = 30_000
"""Elements in a block: a block fits the cache, and is sent as one eager message."""

_SCALE_BYTES = 4
_HALF_MOST = 2.0**14  # leaves headroom for the sum of a few; the largest value is 65504


class Elementwise(Protocol):
    """An encoding whose size follows from the number of elements."""

    width: int
    """Bytes per element."""

    def encode(self, values: Array, wire: Array) -> None:
        """Encode one block of single precision as ``block_bytes`` bytes."""
        ...

    def decode(self, wire: Array, values: Array) -> None:
        """Decode one block."""
        ...


def wire_bytes(code: Elementwise, size: int) -> int:
    """Return the encoded bytes of ``size`` elements: each block has its scale before it."""
    return size * code.width + -(-size // BLOCK) * _SCALE_BYTES


class Scaled:
    """Half precision or eight bits, with one scale for each block.

    Args:
        kind: NumPy's name of the type.
        most: The block's largest number is scaled to this.
    """

    def __init__(self, kind: str, most: float) -> None:
        self.width = int(kind[1:])
        self._kind, self._most = kind, numpy.float32(most)
        self._room = numpy.empty(BLOCK, "f4")

    def encode(self, values: Array, wire: Array) -> None:
        """Encode a block."""
        room = self._room[: len(values)]
        largest = max(values.max(), -values.min())
        scale = largest / self._most if largest > 0 else numpy.float32(1)
        if self._kind != "i1":  # a power of two costs no precision
            scale = numpy.ldexp(numpy.float32(1), numpy.frexp(scale)[1])
        wire[:_SCALE_BYTES].view("f4")[0] = scale
        numpy.divide(values, scale, out=room)
        if self._kind == "i1":
            numpy.rint(room, out=room)
        with numpy.errstate(invalid="ignore"):
            numpy.copyto(wire[_SCALE_BYTES:].view(self._kind), room, casting="unsafe")

    def decode(self, wire: Array, values: Array) -> None:
        """Decode a block."""
        numpy.copyto(values, wire[_SCALE_BYTES:].view(self._kind), casting="unsafe")
        numpy.multiply(values, wire[:_SCALE_BYTES].view("f4")[0], out=values)


class Bfloat16:
    """The upper half of single precision, rounded to the nearest, ties to even."""

    width = 2

    def __init__(self) -> None:
        self._room = numpy.empty(BLOCK, "u4")

    def encode(self, values: Array, wire: Array) -> None:
        """Encode a block."""
        room, bits = self._room[: len(values)], values.view("u4")
        numpy.right_shift(bits, 16, out=room)
        numpy.bitwise_and(room, 1, out=room)
        numpy.add(room, 0x7FFF, out=room)
        numpy.add(room, bits, out=room)
        numpy.right_shift(room, 16, out=room)
        numpy.copyto(wire[_SCALE_BYTES:].view("u2"), room, casting="unsafe")

    def decode(self, wire: Array, values: Array) -> None:
        """Decode a block."""
        bits = values.view("u4")
        numpy.copyto(bits, wire[_SCALE_BYTES:].view("u2"), casting="unsafe")
        numpy.left_shift(bits, 16, out=bits)


def elementwise(codec: Codec) -> Elementwise:
    """Return a new encoder of that name, with its own buffers."""
    if codec is Codec.BF16:
        return Bfloat16()
    return Scaled("f2", _HALF_MOST) if codec is Codec.FP16 else Scaled("i1", 127.0)
