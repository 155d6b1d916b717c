"""Encode single precision in fewer bytes, element by element, and decode it.

Where the package was built with a C compiler, ``native/codec_kernels.c`` does so in one pass.
Either decodes what the other has encoded, to the same numbers.
"""

from __future__ import annotations

import math
import sys
from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import Any, Protocol

import numpy

from workbench.core.performance.exchange_model import Codec
from workbench.engine.compiled_modules import require_current
from workbench.engine.exchange.transport import Array

try:
    from workbench.engine.exchange import codec_kernels

    require_current(codec_kernels)
except ImportError:  # built without a C compiler, for another system, or for another Python
    codec_kernels = None  # type: ignore[assignment]  # what follows asks for it

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


class ElementCodec(Protocol):
    """An encoding whose size follows from the number of elements."""

    width: int
    """Bytes per element."""
    block: int
    """The most elements with one scale."""

    def encode(
        self,
        values: Array,
        wire: Array,
        *,
        came: Array | None = None,
        lost: Array | None = None,
        mean: Array | None = None,
        ranks: int = 1,
    ) -> bool:
        """Encode up to a unit of single precision as `wire_bytes` bytes.

        Args:
            values: Become what was encoded: the mean of the sum.
            came: Encoded values to add first.
            lost: Becomes what the encoding lost of the sum.
            mean: Becomes what ``decode`` makes of the bytes.
            ranks: By how many the sum is divided.

        Returns:
            Whether all values were finite; otherwise bytes, loss and mean are zeros.
        """
        ...

    def decode(self, wire: Array, values: Array) -> None:
        """Decode them."""
        ...


def wire_bytes(code: ElementCodec, size: int) -> int:
    """Return the encoded bytes of ``size`` elements: each block has its scale before it."""
    return size * code.width + -(-size // code.block) * _SCALE_BYTES


class NumpyCodec(ABC):
    """An encoding by NumPy, one operation after the other while the cache has the values."""

    width: int
    block: int

    def __init__(self) -> None:
        self._decoded, self._room = numpy.empty(UNIT, "f4"), numpy.empty(UNIT, "f4")

    def encode(
        self,
        values: Array,
        wire: Array,
        *,
        came: Array | None = None,
        lost: Array | None = None,
        mean: Array | None = None,
        ranks: int = 1,
    ) -> bool:
        """Encode them, as ``ElementCodec`` says."""
        room = self._decoded[: len(values)]
        if came is not None:
            self.decode(came, room)
            numpy.add(values, room, values)
        if ranks > 1:
            numpy.multiply(values, numpy.float32(1 / ranks), values)
        decoded = room if mean is None and lost is not None else mean
        if not self.write(values, wire, decoded):
            for one in (wire, lost, mean):
                if one is not None:
                    one[:] = 0
            return False
        if lost is not None and decoded is not None:
            numpy.subtract(values, decoded, lost)
            if ranks > 1:
                numpy.multiply(lost, numpy.float32(ranks), lost)
        return True

    @abstractmethod
    def write(self, values: Array, wire: Array, decoded: Array | None) -> bool:
        """Encode the values alone, and decode them; false if one is not finite."""

    @abstractmethod
    def decode(self, wire: Array, values: Array) -> None:
        """Decode them."""


class Int8Codec(NumpyCodec):
    """Eight bits, with one scale for each block: its largest number becomes 127."""

    width, block = 1, BLOCK

    def write(self, values: Array, wire: Array, decoded: Array | None) -> bool:
        """Encode them, all blocks at once."""
        back = self._decoded[: len(values)] if decoded is None else decoded
        for scales, codes, own, its in _blocks(wire, values, back):
            largest = numpy.maximum(own.max(-1), -own.min(-1))
            if not math.isfinite(largest.max()):
                return False
            scale = numpy.maximum(largest / _INT8_MOST, _TINY)[..., None]
            scales[...] = scale
            room = self._room[: own.size].reshape(own.shape)
            numpy.multiply(own, 1 / scale, out=room)
            numpy.rint(room, out=room)
            numpy.copyto(codes, room, casting="unsafe")
            if decoded is not None:
                numpy.add(room, 0, out=room)  # a negative zero would be decoded as a positive one
                numpy.multiply(room, scale, out=its)
        return True

    def decode(self, wire: Array, values: Array) -> None:
        """Decode them."""
        for scales, codes, own in _blocks(wire, values):
            numpy.copyto(own, codes)
            numpy.multiply(own, scales, out=own)


class HalfCodec(NumpyCodec):
    """Half precision, with a power of two as its scale, which costs no precision.

    NumPy converts element by element, which takes five times as long as these operations on bits.
    """

    width, block = 2, UNIT

    def __init__(self) -> None:
        super().__init__()
        self._signs = numpy.empty(UNIT, "i4")

    def write(self, values: Array, wire: Array, decoded: Array | None) -> bool:
        """Encode them, rounded to the nearest."""
        largest = _largest(values)
        if not math.isfinite(largest):
            return False
        exponent = max(math.frexp(largest)[1] - _HALF_MOST, _LEAST)
        wire[:_SCALE_BYTES].view("f4")[0] = 2.0**exponent
        self._convert(values, exponent, wire[_SCALE_BYTES:])
        if decoded is not None:
            self.decode(wire, decoded)
        return True

    def _convert(self, values: Array, exponent: int, wire: Array) -> None:
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


class TorchHalfCodec(HalfCodec):
    """The same by PyTorch's conversion, which has instructions of the processor.

    Of two half numbers that are equally near it takes the even one, ``HalfCodec`` the larger.
    Both are in the format of IEEE 754, so ranks with and without PyTorch understand each other.

    Args:
        torch: PyTorch's module, which is not imported for this.
    """

    def __init__(self, torch: Any) -> None:
        super().__init__()
        self._tensor = torch.from_numpy

    def _convert(self, values: Array, exponent: int, wire: Array) -> None:
        room = self._room[: len(values)]
        _shift(values, -exponent, room)
        self._tensor(wire.view("f2")).copy_(self._tensor(room))

    def decode(self, wire: Array, values: Array) -> None:
        """Decode them."""
        self._tensor(values).copy_(self._tensor(wire[_SCALE_BYTES:].view("f2")))
        numpy.multiply(values, wire[:_SCALE_BYTES].view("f4")[0], out=values)


class Bfloat16Codec(NumpyCodec):
    """The upper half of single precision, rounded to the nearest."""

    width, block = 2, UNIT

    def write(self, values: Array, wire: Array, decoded: Array | None) -> bool:
        """Encode them."""
        if not math.isfinite(_largest(values)):
            return False
        room = self._room[: len(values)].view("u4")
        numpy.add(values.view("u4"), 0x8000, out=room)
        numpy.right_shift(room, 16, out=room)
        numpy.copyto(wire[_SCALE_BYTES:].view("u2"), room, casting="unsafe")
        if decoded is not None:
            numpy.left_shift(room, 16, out=decoded.view("u4"))
        return True

    def decode(self, wire: Array, values: Array) -> None:
        """Decode them."""
        bits = values.view("u4")
        numpy.copyto(bits, wire[_SCALE_BYTES:].view("u2"), casting="unsafe")
        numpy.left_shift(bits, 16, out=bits)


class NativeCodec:
    """An encoding by the compiled kernels.

    Args:
        kind: Of the codec, as the kernels number it.
        like: The same encoding by NumPy, which says how large it is.
    """

    def __init__(self, kind: int, like: type[NumpyCodec]) -> None:
        self.width, self.block = like.width, like.block
        self._kind = kind

    def encode(
        self,
        values: Array,
        wire: Array,
        *,
        came: Array | None = None,
        lost: Array | None = None,
        mean: Array | None = None,
        ranks: int = 1,
    ) -> bool:
        """Encode them, as ``ElementCodec`` says."""
        kernels = codec_kernels
        return kernels.encode(self._kind, self.block, values, wire, came, lost, mean, ranks)

    def decode(self, wire: Array, values: Array) -> None:
        """Decode them."""
        codec_kernels.decode(self._kind, self.block, wire, values)


def has_kernels() -> bool:
    """Return whether the compiled kernels are there, and this processor has their instructions."""
    return codec_kernels is not None and codec_kernels.IS_SUPPORTED


def build_element_codec(codec: Codec) -> ElementCodec:
    """Return a new encoder of that name, with its own buffers."""
    if has_kernels():
        kernels = codec_kernels
        numbers = {Codec.INT8: kernels.INT8, Codec.FP16: kernels.HALF}
        return NativeCodec(numbers.get(codec, kernels.BFLOAT16), _NUMPY_CODECS[codec])
    torch = sys.modules.get("torch")
    if codec is Codec.FP16 and hasattr(torch, "from_numpy"):
        return TorchHalfCodec(torch)
    return _NUMPY_CODECS[codec]()


_NUMPY_CODECS: dict[Codec, type[NumpyCodec]] = {
    Codec.INT8: Int8Codec,
    Codec.FP16: HalfCodec,
    Codec.BF16: Bfloat16Codec,
}


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
