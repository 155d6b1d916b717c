"""Encode single precision in fewer bytes, element by element, and decode it."""

from __future__ import annotations

import math
import sys
from typing import Any, Protocol

import numpy

from workbench.core.performance.exchange_model import Codec
from workbench.engine.exchange.transport import Array

BLOCK = 30_000
"""Elements in a block: a block fits the cache, and is sent as one eager message."""

_SCALE_BYTES = 4
_HALF_MOST = 14  # exponent of two; leaves headroom for the sum of a few: the largest is 65504
_TINY = numpy.finfo("f4").tiny
_LEAST, _MOST = -126, 127  # exponents of single precision
# Single precision differs from half by 13 bits of mantissa, and by 112 in an exponent's origin. The
# sign moves by three more bits.
_MANTISSA, _ORIGIN, _SIGN, _FIELDS = 13, 112, 0x7000_0000, -0x7000_2000


class Elementwise(Protocol):
    """An encoding whose size follows from the number of elements."""

    width: int
    """Bytes per element."""

    def encode(self, values: Array, wire: Array, decoded: Array) -> bool:
        """Encode one block of single precision as ``block_bytes`` bytes.

        Args:
            decoded: Becomes what ``decode`` makes of them.

        Returns:
            Whether all values were finite; otherwise nothing is encoded.
        """
        ...

    def decode(self, wire: Array, values: Array) -> None:
        """Decode one block."""
        ...


def wire_bytes(code: Elementwise, size: int) -> int:
    """Return the encoded bytes of ``size`` elements: each block has its scale before it."""
    return size * code.width + -(-size // BLOCK) * _SCALE_BYTES


class Int8:
    """Eight bits, with one scale for each block: its largest number becomes 127."""

    width = 1

    def __init__(self) -> None:
        self._room = numpy.empty(BLOCK, "f4")

    def encode(self, values: Array, wire: Array, decoded: Array) -> bool:
        """Encode a block."""
        largest = _largest(values)
        if not math.isfinite(largest):
            return False
        scale = max(numpy.float32(largest / 127), _TINY) if largest else numpy.float32(1)
        wire[:_SCALE_BYTES].view("f4")[0] = scale
        room = self._room[: len(values)]
        numpy.multiply(values, 1 / scale, out=room)
        numpy.rint(room, out=room)
        numpy.add(room, 0, out=room)  # a negative zero would be decoded as a positive one
        numpy.copyto(wire[_SCALE_BYTES:].view("i1"), room, casting="unsafe")
        numpy.multiply(room, scale, out=decoded)
        return True

    def decode(self, wire: Array, values: Array) -> None:
        """Decode a block."""
        numpy.copyto(values, wire[_SCALE_BYTES:].view("i1"), casting="unsafe")
        numpy.multiply(values, wire[:_SCALE_BYTES].view("f4")[0], out=values)


class Half:
    """Half precision, with a power of two for each block as its scale, which costs no precision.

    NumPy converts element by element, which takes five times as long as these operations on bits.
    """

    width = 2

    def __init__(self) -> None:
        self._room = numpy.empty(BLOCK, "f4")
        self._signs = numpy.empty(BLOCK, "i4")

    def encode(self, values: Array, wire: Array, decoded: Array) -> bool:
        """Encode a block, rounded to the nearest."""
        largest = _largest(values)
        if not math.isfinite(largest):
            return False
        exponent = max(math.frexp(largest)[1] - _HALF_MOST, _LEAST)
        wire[:_SCALE_BYTES].view("f4")[0] = 2.0**exponent
        self._write(values, exponent, wire[_SCALE_BYTES:])
        self.decode(wire, decoded)
        return True

    def _write(self, values: Array, exponent: int, wire: Array) -> None:
        """Write values, divided by a power of two, in half precision."""
        room, signs = self._room[: len(values)], self._signs[: len(values)]
        _shift(values, -_ORIGIN - exponent, room)
        bits = room.view("i4")
        numpy.right_shift(bits, 31, out=signs)
        numpy.bitwise_and(signs, _SIGN, out=signs)
        numpy.add(bits, signs, out=bits)
        numpy.add(bits, 1 << (_MANTISSA - 1), out=bits)
        numpy.right_shift(bits, _MANTISSA, out=bits)
        numpy.copyto(wire.view("i2"), bits, casting="unsafe")

    def decode(self, wire: Array, values: Array) -> None:
        """Decode a block."""
        scale, bits = wire[:_SCALE_BYTES].view("f4")[0], values.view("i4")
        numpy.copyto(bits, wire[_SCALE_BYTES:].view("i2"))
        numpy.left_shift(bits, _MANTISSA, out=bits)
        numpy.bitwise_and(bits, _FIELDS, out=bits)
        _shift(values, _ORIGIN + math.frexp(scale)[1] - 1, values)


class TorchHalf(Half):
    """The same by PyTorch's conversion, which has instructions of the processor.

    Of two half numbers that are equally near it takes the even one, ``Half`` the larger. Both are
    in the format of IEEE 754, so ranks with and without PyTorch understand each other.

    Args:
        torch: PyTorch's module, which is not imported for this.
    """

    def __init__(self, torch: Any) -> None:
        super().__init__()
        self._tensor = torch.from_numpy

    def _write(self, values: Array, exponent: int, wire: Array) -> None:
        room = self._room[: len(values)]
        _shift(values, -exponent, room)
        self._tensor(wire.view("f2")).copy_(self._tensor(room))

    def decode(self, wire: Array, values: Array) -> None:
        """Decode a block."""
        self._tensor(values).copy_(self._tensor(wire[_SCALE_BYTES:].view("f2")))
        numpy.multiply(values, wire[:_SCALE_BYTES].view("f4")[0], out=values)


class Bfloat16:
    """The upper half of single precision, rounded to the nearest."""

    width = 2

    def __init__(self) -> None:
        self._room = numpy.empty(BLOCK, "u4")

    def encode(self, values: Array, wire: Array, decoded: Array) -> bool:
        """Encode a block."""
        if not math.isfinite(_largest(values)):
            return False
        room = self._room[: len(values)]
        numpy.add(values.view("u4"), 0x8000, out=room)
        numpy.right_shift(room, 16, out=room)
        numpy.copyto(wire[_SCALE_BYTES:].view("u2"), room, casting="unsafe")
        numpy.left_shift(room, 16, out=decoded.view("u4"))
        return True

    def decode(self, wire: Array, values: Array) -> None:
        """Decode a block."""
        bits = values.view("u4")
        numpy.copyto(bits, wire[_SCALE_BYTES:].view("u2"), casting="unsafe")
        numpy.left_shift(bits, 16, out=bits)


def elementwise(codec: Codec) -> Elementwise:
    """Return a new encoder of that name, with its own buffers."""
    if codec is Codec.BF16:
        return Bfloat16()
    if codec is Codec.FP16:
        torch = sys.modules.get("torch")
        return TorchHalf(torch) if hasattr(torch, "from_numpy") else Half()
    return Int8()


def _largest(values: Array) -> float:
    """Return the largest magnitude; not finite if one of the values is not."""
    return max(float(values.max()), -float(values.min()))


def _shift(values: Array, exponent: int, out: Array) -> None:
    """Multiply by a power of two, in two steps if single precision does not have it."""
    if not _LEAST <= exponent <= _MOST:
        first = _LEAST if exponent < _LEAST else _MOST
        numpy.multiply(values, numpy.float32(2.0**first), out=out)
        values, exponent = out, exponent - first
    numpy.multiply(values, numpy.float32(2.0**exponent), out=out)
