"""Average matrices by low-rank approximation: PowerSGD (Vogels, Karimireddy, Jaggi 2019).

A matrix M, with what earlier steps left out, is approximated by P·Qᵀ of rank r. A step makes the
columns of the last Q orthonormal and averages P = M·Q, then makes those of P orthonormal and
averages Q = Mᵀ·P. Both in each step: with one of them, as in Zhang et al., "Evaluation and
Optimization of Gradient Compression for Distributed Deep Learning" (ICDCS 2023), a CNN needed
twice as many epochs, for each factor then follows a matrix that has already lost what the other
one took.

The gradient, the remainder and the product pass through the cache together, some rows at a time.
That is why the remainder of a step is computed in the next one: until then memory has M, and the
rank's own factors say what was sent of it.

All ranks do the same arithmetic on the same numbers. On different processors the last bits of a
product may differ: then rank 0's orthonormal factor is sent to all, and P·Qᵀ is summed without a
matrix product.
"""

from __future__ import annotations

import itertools
import json
import math
import os
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy

from workbench.engine.exchange.nonfinite import is_suspect
from workbench.engine.exchange.transport import Array, Transport

SEED = 20_190
_BLOCK = 1 << 17  # elements; two such blocks fit the cache of a core
# Up to so many rows, a block in the cache is multiplied sooner by one after the other: a product
# of matrices copies it first.
_FEW_ROWS = 4
# Directions whose square is a smaller share of all are mostly rounding errors.
_WEAK = 1e-10

Mean = Callable[[Array], None]
"""Replaces a flat array by its mean over the ranks."""


def is_worthwhile(shape: Sequence[int], rank: int) -> bool:
    """Return whether a gradient of ``shape`` becomes at least four times smaller."""
    if len(shape) < 2:
        return False
    rows, columns = shape[0], math.prod(shape[1:])
    return 4 * rank * (rows + columns) <= rows * columns


class PowerSgd:
    """The matrices of one buffer.

    Args:
        shapes: Of the gradients in the buffer, one after the other; all are worthwhile.
        rank: Columns of P and Q.
        mean: Averages P and Q exactly.
    """

    def __init__(
        self, transport: Transport, shapes: Sequence[Sequence[int]], rank: int, mean: Mean
    ) -> None:
        self._transport, self._mean = transport, mean
        self._sizes = [(shape[0], math.prod(shape[1:])) for shape in shapes]
        self._alike = processors_are_alike(transport)
        self._left = _Factor([rows for rows, _ in self._sizes], rank)
        self._right = _Factor([columns for _, columns in self._sizes], rank)
        self._rest = numpy.zeros(sum(rows * columns for rows, columns in self._sizes), "f4")
        self._owes = False  # whether what was sent is still to be subtracted from the rest
        widest = max((columns for _, columns in self._sizes), default=0)
        self._room = numpy.empty(max(widest, _BLOCK), "f4")
        self._part = numpy.empty(rank * widest, "f4")
        self.error = 0.0
        self.nbytes = 0
        self.coding = 0.0

    def mean(
        self,
        buffer: Array,
        *,
        measure: bool,
        gradients: Sequence[Array] | None = None,
        in_place: bool = False,
    ) -> bool:
        """Replace ``buffer``, or the gradients, by the mean; false if one was not finite."""
        begun, waited, sent, finite = time.perf_counter(), 0.0, 0, True
        pieces = self._matrices(buffer) if gradients is None else gradients
        given = [one.reshape(size) for one, size in zip(pieces, self._sizes, strict=True)]
        news = given
        for fixed, free in ((self._right, self._left), (self._left, self._right)):
            fixed.orthonormalise()
            if not self._alike:
                self._transport.comm.Bcast(fixed.flat)
            with numpy.errstate(invalid="ignore", over="ignore"):  # it is found in the product
                is_finite = self._multiply(free, news)
            if not is_finite:
                finite = False
                self._rest.fill(0)
                free.flat.fill(0)
            news = []
            fixed.keep()
            free.keep()
            waiting = time.perf_counter()
            self._mean(free.flat)
            waited += time.perf_counter() - waiting
            finite = finite and not is_suspect(free.flat)
            sent += free.flat.nbytes
        if measure:  # one factor is orthonormal, so the other has the norm of what was sent
            share = _norm(free.kept) / (_norm(self._rest) or 1.0)
            self.error = math.sqrt(max(0.0, 1.0 - share * share))
        self._owes = True
        taken = given if in_place else self._matrices(buffer)
        for matrix, p, q in zip(taken, self._left.parts, self._right.parts, strict=True):
            self._product(p, q, matrix)
        self.coding = time.perf_counter() - begun - waited
        self.nbytes = int(2 * (self._transport.size - 1) / self._transport.size * sent)
        return finite

    def state(self) -> dict[str, Any]:
        """Return what is kept from step to step."""
        self._settle()
        return {"lost": self._rest, "right": self._right.flat.copy()}

    def restore(self, state: dict[str, Any]) -> None:
        """Continue with such a state."""
        numpy.copyto(self._rest, state["lost"])
        self._owes = False
        if "right" in state and state["right"].shape == self._right.flat.shape:
            numpy.copyto(self._right.flat, state["right"])

    def align(self) -> None:
        """Continue with the factor of rank 0, for a rank may be new here; collective."""
        self._transport.comm.Bcast(self._right.flat)

    def _multiply(self, free: _Factor, news: Sequence[Array]) -> bool:
        """Add the gradient to the rest, and compute this rank's factor; false if not finite."""
        for number, (matrix, (rows, columns)) in enumerate(
            zip(self._matrices(self._rest), self._sizes, strict=True)
        ):
            p, q = self._left.parts[number], self._right.parts[number]
            height = max(1, _BLOCK // columns)
            part = self._part[: q.size].reshape(q.shape)
            for start in range(0, rows, height):
                block = matrix[start : start + height]
                if self._owes:
                    self._subtract(number, slice(start, start + height), block)
                if news:
                    numpy.add(block, news[number][start : start + height], block)
                if free is self._left:
                    _multiply_rows(q, block.T, p[:, start : start + height])
                    continue
                _multiply_rows(p[:, start : start + height], block, part if start else q)
                if start:
                    numpy.add(q, part, q)
        self._owes = False
        return not is_suspect(free.flat)

    def _subtract(self, number: int, rows: slice, block: Array) -> None:
        """Subtract what this rank sent in the step before."""
        room = self._room[: block.size].reshape(block.shape)
        p, q = self._left.kept_parts[number], self._right.kept_parts[number]
        numpy.matmul(p[:, rows].T, q, out=room)
        numpy.subtract(block, room, block)

    def _settle(self) -> None:
        """Turn the matrices with what was sent of them into the remainder."""
        if self._owes:
            matrices = zip(self._matrices(self._rest), self._sizes, strict=True)
            for number, (matrix, (rows, columns)) in enumerate(matrices):
                height = max(1, _BLOCK // columns)
                for start in range(0, rows, height):
                    place = slice(start, start + height)
                    self._subtract(number, place, matrix[place])
        self._owes = False

    def _matrices(self, buffer: Array) -> list[Array]:
        ends = itertools.accumulate((n * m for n, m in self._sizes), initial=0)
        spans = zip(itertools.pairwise(ends), self._sizes, strict=True)
        return [buffer[a:b].reshape(size) for (a, b), size in spans]

    def _product(self, p: Array, q: Array, out: Array) -> None:
        if self._alike:
            height = max(1, _BLOCK // out.shape[1])
            for start in range(0, len(out), height):
                rows = slice(start, start + height)
                numpy.matmul(p[:, rows].T, q, out=out[rows])
            return
        out.fill(0)
        for left, right in zip(p, q, strict=True):
            for row, factor in zip(out, left, strict=True):
                numpy.add(row, factor * right, row)


class _Factor:
    """The factors P or Q of all matrices, as rows: of each matrix ``rank`` times its length.

    Args:
        lengths: Rows or columns of the matrices.
    """

    def __init__(self, lengths: Sequence[int], rank: int) -> None:
        self._rank, self._lengths = rank, lengths
        self.flat = numpy.random.RandomState(SEED).standard_normal(rank * sum(lengths)).astype("f4")
        self.kept = numpy.zeros_like(self.flat)
        self.parts, self.kept_parts = self._split(self.flat), self._split(self.kept)

    def keep(self) -> None:
        """Keep the numbers of this rank, which are replaced by the mean."""
        numpy.copyto(self.kept, self.flat)

    def orthonormalise(self) -> None:
        """Make the rows of each matrix orthonormal, by a Cholesky factor of their products.

        Rows that nearly depend on others become shorter than 1, so that nothing is sent twice.
        Rows of zeros are drawn again, after a step without gradient.
        """
        wide = self.flat.astype("f8")
        parts = self._split(wide)
        if not parts:
            return
        products = numpy.stack([part @ part.T for part in parts])
        for number, row in numpy.argwhere(products.diagonal(axis1=1, axis2=2) == 0):
            part = parts[number]
            part[row] = numpy.random.RandomState(SEED + row).standard_normal(part.shape[1])
            products[number] = part @ part.T
        ridge = _WEAK * products.trace(axis1=1, axis2=2)
        products += ridge[:, None, None] * numpy.eye(self._rank)
        inverses = numpy.linalg.inv(numpy.linalg.cholesky(products))
        for inverse, part, out in zip(inverses, parts, self.parts, strict=True):
            numpy.copyto(out, inverse @ part, casting="same_kind")

    def _split(self, flat: Array) -> list[Array]:
        ends = itertools.accumulate((self._rank * one for one in self._lengths), initial=0)
        return [flat[a:b].reshape(self._rank, -1) for a, b in itertools.pairwise(ends)]


def processors_are_alike(transport: Transport) -> bool:
    """Return whether all ranks will round a product in the same way; collective."""
    features = numpy.show_config(mode="dicts").get("SIMD Extensions")
    threads = {k: v for k, v in os.environ.items() if k.endswith("_NUM_THREADS") or "OPENBLAS" in k}
    own: Any = json.dumps([features, numpy.__version__, threads], sort_keys=True)
    return len({*transport.comm.allgather(own)}) == 1


def _multiply_rows(rows: Array, block: Array, out: Array) -> None:
    """Write the product of a factor's rows with a block to ``out``."""
    if len(rows) > _FEW_ROWS:
        numpy.matmul(rows, block, out=out)
        return
    for row, to in zip(rows, out, strict=True):
        row.dot(block, to)


def _norm(values: Array) -> float:
    return math.sqrt(float(numpy.dot(values, values)))
