"""The memory of gradients during an exchange: in place if possible, else reused buffers."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy
from mpi4py import MPI

from workbench.engine.exchange.bucket_layout import Bucket
from workbench.engine.exchange.transport import Array


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
