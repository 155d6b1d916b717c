"""Encode single precision in fewer bytes, element by element, and decode it."""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator
from typing import Any, Protocol

import numpy

from workbench.core.performance.exchange_model import Codec
from workbench.engine.exchange.transport import Array

BLOCK = 30_000
"""Elements in a block: of eight bits, a block has a scale of its own."""

UNIT = 3 * BLOCK
"""The most elements that are encoded at once: calls of NumPy and MPI cost as much as 8,000."""

_SCALE_BYTES = 4
_HALF_MOST = 14  # exponent of two; leaves headroom for the sum of a few: the largest is 65504
_INT8_MOST, _TINY = numpy.float32(127), numpy.finfo("f4").tiny
_LEAST, _MOST = -126, 127  # exponents of single precision
# Single precision differs from half by 13 bits of mantissa, and by 112 in an exponent's origin. The
# sign moves by three more bits.
_MANTISSA, _ORIGIN, _SIGN, _FIELDS = 13, 112, 0x7000_0000, -0x7000_2000


class Elementwise(Protocol):
    """An encoding whose size follows from the number of elements."""

    width: int
    """Bytes per element."""
    block: int
    """The most elements with one scale."""

    def encode(self, values: Array, wire: Array, decoded: Array) -> bool:
        """Encode up to a unit of single precision as `wire_bytes` bytes.

        Args:
            decoded: Becomes what ``decode`` makes of them.

        Returns:
            Whether all values were finite; otherwise the bytes mean nothing.
        """
        ...

    def decode(self, wire: Array, values: Array) -> None:
        """Decode them."""
        ...


def wire_bytes(code: Elementwise, size: int) -> int:
    """Return the encoded bytes of ``size`` elements: each block has its scale before it."""
    return size * code.width + -(-size // code.block) * _SCALE_BYTES


class Int8:
    """Eight bits, with one scale for each block: its largest number becomes 127."""

    width, block = 1, BLOCK

    def __init__(self) -> None:
        self._room = numpy.empty(UNIT, "f4")

    def encode(self, values: Array, wire: Array, decoded: Array) -> bool:
        """Encode them, all blocks at once."""
        for scales, codes, own, back in _blocks(wire, values, decoded):
            largest = numpy.maximum(own.max(-1), -own.min(-1))
            if not math.isfinite(largest.max()):
                return False
            scale = numpy.maximum(largest / _INT8_MOST, _TINY)[..., None]
            scales[...] = scale
            room = self._room[: own.size].reshape(own.shape)
            numpy.multiply(own, 1 / scale, out=room)
            numpy.rint(room, out=room)
            numpy.add(room, 0, out=room)  # a negative zero would be decoded as a positive one
            numpy.copyto(codes, room, casting="unsafe")
            numpy.multiply(room, scale, out=back)
        return True

    def decode(self, wire: Array, values: Array) -> None:
        """Decode them."""
        for scales, codes, own in _blocks(wire, values):
            numpy.copyto(own, codes)
            numpy.multiply(own, scales, out=own)


class Half:
    """Half precision, with a power of two as its scale, which costs no precision.

    NumPy converts element by element, which takes five times as long as these operations on bits.
    """

    width, block = 2, UNIT

    def __init__(self) -> None:
        self._room = numpy.empty(UNIT, "f4")
        self._signs = numpy.empty(UNIT, "i4")

    def encode(self, values: Array, wire: Array, decoded: Array) -> bool:
        """Encode them, rounded to the nearest."""
        if not self.round(values, wire):
            return False
        self.decode(wire, decoded)
        return True

    def round(self, values: Array, wire: Array) -> bool:
        """Encode them without decoding them again; false if one is not finite."""
        largest = _largest(values)
        if not math.isfinite(largest):
            return False
        exponent = max(math.frexp(largest)[1] - _HALF_MOST, _LEAST)
        wire[:_SCALE_BYTES].view("f4")[0] = 2.0**exponent
        self._write(values, exponent, wire[_SCALE_BYTES:])
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
        """Decode them."""
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
        """Decode them."""
        self._tensor(values).copy_(self._tensor(wire[_SCALE_BYTES:].view("f2")))
        numpy.multiply(values, wire[:_SCALE_BYTES].view("f4")[0], out=values)


class Bfloat16:
    """The upper half of single precision, rounded to the nearest."""

    width, block = 2, UNIT

    def __init__(self) -> None:
        self._room = numpy.empty(UNIT, "u4")

    def encode(self, values: Array, wire: Array, decoded: Array) -> bool:
        """Encode them."""
        if not math.isfinite(_largest(values)):
            return False
        room = self._room[: len(values)]
        numpy.add(values.view("u4"), 0x8000, out=room)
        numpy.right_shift(room, 16, out=room)
        numpy.copyto(wire[_SCALE_BYTES:].view("u2"), room, casting="unsafe")
        numpy.left_shift(room, 16, out=decoded.view("u4"))
        return True

    def decode(self, wire: Array, values: Array) -> None:
        """Decode them."""
        bits = values.view("u4")
        numpy.copyto(bits, wire[_SCALE_BYTES:].view("u2"), casting="unsafe")
        numpy.left_shift(bits, 16, out=bits)


def elementwise(codec: Codec) -> Elementwise:
    """Return a new encoder of that name, with its own buffers."""
    if codec is Codec.BF16:
        return Bfloat16()
    return half() if codec is Codec.FP16 else Int8()


def half() -> Half:
    """Return a new encoder of half precision; PyTorch's where that is imported."""
    torch = sys.modules.get("torch")
    return TorchHalf(torch) if hasattr(torch, "from_numpy") else Half()


def _blocks(wire: Array, *arrays: Array) -> Iterator[tuple[Array, ...]]:
    """Return the blocks that are whole, a block in each row, and then the one that is not.

    Returns:
        The scales as a column, the rows of encoded numbers, and those of each array. A block alone
        is not in a row, which takes less time.
    """
    size = len(arrays[0])
    if size <= BLOCK:
        yield wire[:_SCALE_BYTES].view("f4"), wire[_SCALE_BYTES:].view("i1"), *arrays
        return
    rows, rest = divmod(size, BLOCK)
    at, there = rows * BLOCK, rows * (BLOCK + _SCALE_BYTES)
    for count, elements, encoded in (
        (rows, slice(0, at), slice(0, there)),
        (1 if rest else 0, slice(at, size), slice(there, None)),
    ):
        if count:
            lines = wire[encoded].reshape(count, -1)
            own = (array[elements].reshape(count, -1) for array in arrays)
            yield lines[:, :_SCALE_BYTES].view("f4"), lines[:, _SCALE_BYTES:].view("i1"), *own


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
