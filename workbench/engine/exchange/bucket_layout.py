"""Lay out gradients in buckets, in which order, and in which memory: in place or in buffers."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy
from mpi4py import MPI

from workbench.engine.exchange.transport import Array
from workbench.errors import GradientError

HEADER = 4
DIRECT_BYTES = 32 << 10
"""Larger arrays are sent in place; for smaller ones a copy costs less than a message."""

_LAST_BYTES = 1 << 20
"""The most of the compressed gradients that are completed last."""

_WIRE = {"f2": "f4", "f4": "f4", "f8": "f8"}


class GradientShape(NamedTuple):
    """What all ranks must agree on for one gradient; ``kind`` is empty without a gradient."""

    name: str
    shape: tuple[int, ...]
    kind: str

    @property
    def size(self) -> int:
        """Elements."""
        return int(numpy.prod(self.shape, dtype=numpy.int64))

    @property
    def wire(self) -> str:
        """The type of the sums; half precision is summed in single."""
        return _WIRE[self.kind]


def shape_of(name: str, gradient: Array | None, kept: tuple[int, ...] = ()) -> GradientShape:
    """Return the shape record of a gradient.

    Args:
        kept: The parameter's shape, if there is no gradient.
    """
    if gradient is None:
        return GradientShape(name, kept, "")
    return GradientShape(name, gradient.shape, gradient.dtype.str[1:])


@dataclass
class Bucket:
    """Gradients that are reduced together.

    Args:
        wire: The type of the sums.
        slots: Their numbers.
        sizes: Elements of each.
        fused: Whether they are copied into one buffer; otherwise each stays in place.
        squeezed: Whether they are compressed.
    """

    wire: str
    slots: list[int]
    sizes: list[int]
    fused: bool
    squeezed: bool = False
    buffer: Array = None
    places: list[Array] = field(default_factory=list)

    def __post_init__(self) -> None:
        if self.fused:
            self.buffer = numpy.zeros(sum(self.sizes), self.wire)
            ends = numpy.cumsum([0, *self.sizes]).tolist()
            self.places = [self.buffer[a:b] for a, b in itertools.pairwise(ends)]

    @property
    def size(self) -> int:
        """Elements."""
        return sum(self.sizes)

    @property
    def nbytes(self) -> int:
        """Bytes to send without compression."""
        return self.size * int(self.wire[1:])


class BucketLayout:
    """The buckets of one set of gradients.

    Args:
        shapes: Of all gradients, as agreed.
        fused_bytes: Size of the buckets that gradients are copied into; 0 to leave them in place.
        order: Numbers of the gradients in the order of completion; the given order by default.
        is_squeezed: Returns whether a gradient is compressed.
        closing_bytes: If all gradients together are no larger, they go with the header.
    """

    def __init__(
        self,
        shapes: Sequence[GradientShape],
        fused_bytes: int = 0,
        order: Sequence[int] = (),
        is_squeezed: Callable[[GradientShape], bool] = lambda shape: False,
        closing_bytes: int = 0,
    ) -> None:
        self.shapes = list(shapes)
        self._is_squeezed = is_squeezed
        self.key = [(shape.shape, shape.kind) for shape in shapes]
        self.types = [numpy.dtype(shape.kind or "V") for shape in shapes]
        """The type of each gradient."""
        there = [n for n in order or range(len(shapes)) if shapes[n].kind and shapes[n].size]
        goes_at_once = self._nbytes(there) <= closing_bytes
        small = [n for n in there if _is_small(shapes[n], goes_at_once)]
        large = [n for n in there if not _is_small(shapes[n], goes_at_once)]
        self.buckets = self._fuse(large, fused_bytes) if fused_bytes else self._in_place(large)
        sizes = [HEADER, *(shapes[n].size for n in small)]
        self.closing = Bucket("f4", [-1, *small], sizes, fused=True)
        self.small = [
            (n, place.reshape(shapes[n].shape))
            for n, place in zip(small, self.closing.places[1:], strict=True)
        ]
        """Numbers of the gradients that go with the header, and their places in its buffer."""
        self.is_one_message = not self.buckets and all(shape.kind for shape in shapes)
        """Whether all gradients are there, and go with the header."""
        self.home = {n: b for b, bucket in enumerate(self.buckets) for n in bucket.slots}
        self.nbytes = sum(one.nbytes for one in (*self.buckets, self.closing))
        """Bytes of all buckets."""

    @property
    def all_slots(self) -> list[int]:
        """Numbers of all existing gradients."""
        return [n for bucket in (*self.buckets, self.closing) for n in bucket.slots if n >= 0]

    def _in_place(self, large: list[int]) -> list[Bucket]:
        return [
            Bucket(wire, slots, [self.shapes[n].size for n in slots], fused=False)
            for wire in sorted({self.shapes[n].wire for n in large})
            if (slots := [n for n in large if self.shapes[n].wire == wire])
        ]

    def _fuse(self, large: list[int], nbytes: int) -> list[Bucket]:
        found: list[Bucket] = []
        open_: dict[tuple[str, bool], list[int]] = {}
        for n in large:
            kind = (self.shapes[n].wire, self._is_squeezed(self.shapes[n]))
            slots = open_.setdefault(kind, [])
            if slots and self._nbytes([*slots, n]) > nbytes:
                found.append(self._build_bucket(kind, slots))
                slots = open_[kind] = []
            slots.append(n)
        for kind, slots in open_.items():
            parts = self._part(slots) if kind[1] and found else [slots]
            found += [self._build_bucket(kind, part) for part in parts if part]
        return found

    def _part(self, slots: list[int]) -> list[list[int]]:
        """Part the last gradients from those before: no computation is left to hide them."""
        at = len(slots)
        while at and self._nbytes(slots[at - 1 :]) <= _LAST_BYTES:
            at -= 1
        return [slots[:at], slots[at:]]

    def _build_bucket(self, kind: tuple[str, bool], slots: list[int]) -> Bucket:
        sizes = [self.shapes[n].size for n in slots]
        return Bucket(kind[0], slots, sizes, fused=True, squeezed=kind[1])

    def _nbytes(self, slots: list[int]) -> int:
        return sum(self.shapes[n].size * int(self.shapes[n].wire[1:]) for n in slots)


def _is_small(shape: GradientShape, goes_at_once: bool) -> bool:
    return shape.wire == "f4" and (goes_at_once or 4 * shape.size < DIRECT_BYTES)


def find_disagreement(all_shapes: Sequence[Sequence[GradientShape]]) -> GradientError | None:
    """Return an error on the first gradient that differs between ranks, or None.

    Args:
        all_shapes: Each rank's shapes, by rank.
    """
    first = all_shapes[0]
    for rank, shapes in enumerate(all_shapes):
        if [s.name for s in shapes] != [s.name for s in first]:
            return _build_name_error(rank, shapes, first)
    for number, shape in enumerate(first):
        having = [shapes[number] for shapes in all_shapes]
        for what in ("kind", "shape"):
            values = [getattr(one, what) for one in having]
            if len({*values}) > 1:
                return _build_value_error(shape.name, what, values)
    return None


def _build_name_error(
    rank: int, shapes: Sequence[GradientShape], first: Sequence[GradientShape]
) -> GradientError:
    mine, its = {s.name for s in shapes}, {s.name for s in first}
    if mine == its:
        at = next(n for n, (a, b) in enumerate(zip(shapes, first, strict=True)) if a.name != b.name)
        return GradientError(
            f"Rank {rank} has its parameters in another order: number {at} is "
            f"{shapes[at].name} there and {first[at].name} on rank 0",
            "build the same model on all.",
        )
    name = min(mine ^ its)
    who, lacks = (rank, 0) if name in mine else (0, rank)
    return GradientError(
        f"Rank {who} has the parameter {name}, rank {lacks} has not", "build the same model on all."
    )


def _build_value_error(name: str, what: str, values: list[object]) -> GradientError:
    usual = max(values, key=values.count)
    odd = next(rank for rank, value in enumerate(values) if value != usual)
    other = next(rank for rank, value in enumerate(values) if value == usual)
    if what == "kind" and "" in (usual, values[odd]):
        without, has = (odd, other) if values[odd] == "" else (other, odd)
        return GradientError(
            f"Rank {without} has no gradient for {name}, rank {has} has one",
            "use the parameter on all ranks, or pass zero_fill=True.",
        )
    word = {"kind": "type", "shape": "shape"}[what]
    one, two = _format_value(values[odd]), _format_value(usual)
    return GradientError(
        f"The gradient of {name} has {word} {one} on rank {odd} and {two} on rank {other}",
        "build the same model on all ranks.",
    )


def _format_value(value: object) -> str:
    return numpy.dtype(value).name if isinstance(value, str) else str(value)


class GradientStorage:
    """The flat memory of the gradients of buckets, and the way back to the gradients."""

    def __init__(self) -> None:
        self._staged: dict[int, Array] = {}

    def flats(self, bucket: Bucket, gradients: Sequence[Array]) -> list[Array]:
        """Return flat arrays with the values of a bucket's gradients.

        A gradient is used in place if it is contiguous, of the bucket's type and shares its memory
        with no other; Chainer gives the same array to both sides of a sum.
        """
        apart = _apart([gradients[n] for n in bucket.slots])
        return [
            gradients[n].reshape(-1)
            if alone and _is_plain(gradients[n], bucket.wire)
            else self._stage(n, gradients[n], bucket.wire)
            for n, alone in zip(bucket.slots, apart, strict=True)
        ]

    def load(self, bucket: Bucket, gradients: Sequence[Array]) -> None:
        """Copy gradients into a bucket's buffer."""
        for n, place in zip(bucket.slots, bucket.places, strict=True):
            numpy.copyto(place.reshape(gradients[n].shape), gradients[n])

    def results(
        self, bucket: Bucket, flats: Sequence[Array], gradients: Sequence[Array]
    ) -> list[tuple[int, Array]]:
        """Write means back; return number and array of each that must replace a gradient."""
        news = []
        for n, flat in zip(bucket.slots, flats, strict=True):
            if numpy.may_share_memory(flat, gradients[n]):
                continue
            mean, old = flat.reshape(gradients[n].shape), gradients[n]
            if bucket.fused and old.dtype == mean.dtype:
                news.append((n, mean))
            elif old.flags.c_contiguous and old.flags.writeable and not self._is_staged(n, old):
                numpy.copyto(old, mean, casting="same_kind")
            else:
                news.append((n, mean.astype(old.dtype)))
        return news

    def _is_staged(self, n: int, gradient: Array) -> bool:
        """Return whether a contiguous gradient was copied because it shares its memory."""
        return n in self._staged and gradient.dtype == self._staged[n].dtype

    def _stage(self, n: int, gradient: Array, wire: str) -> Array:
        staged = self._staged.get(n)
        if staged is None or staged.size != gradient.size:
            staged = self._staged[n] = numpy.empty(gradient.size, wire)
        numpy.copyto(staged.reshape(gradient.shape), gradient)
        return staged


def scale_back(
    places: Sequence[tuple[int, Array]], factor: Array, gradients: Sequence[Array]
) -> list[tuple[int, Array]]:
    """Write ``factor`` times the sums in a buffer that is never given out back.

    Args:
        places: Numbers of the gradients, and the sums in their shapes.
        factor: An array without dimensions, with which NumPy multiplies sooner than with a number.

    Returns:
        Number and array of each that must replace a gradient.
    """
    news = []
    for n, sums in places:
        old = gradients[n]
        flags = old.flags
        if flags.c_contiguous and flags.writeable:
            numpy.multiply(sums, factor, old)
        else:
            news.append((n, (sums * factor).astype(old.dtype)))
    return news


def _is_plain(array: Array, wire: str) -> bool:
    flags = array.flags
    return bool(flags.c_contiguous and flags.writeable and array.dtype == wire)


def _address(array: Array) -> int:
    if array.flags.c_contiguous:  # ten times as quick as the other
        return MPI.Get_address(array)
    return int(array.__array_interface__["data"][0])


def _apart(arrays: Sequence[Array]) -> list[bool]:
    """Return for each array whether it shares memory with no other one."""
    starts = [_address(array) for array in arrays]
    order = sorted(range(len(arrays)), key=starts.__getitem__)
    alone = [True] * len(arrays)
    for one, two in itertools.pairwise(order):
        if starts[one] + arrays[one].nbytes > starts[two]:
            alone[one] = alone[two] = False
    return alone
