"""Average matrices by low-rank approximation: PowerSGD (Vogels, Karimireddy, Jaggi 2019).

Every matrix M plus its compression error is approximated by P·Qᵀ of rank r: P = M·Q is averaged and
made orthonormal, then Q = Mᵀ·P is averaged; Q is the next step's start (their algorithms 1, 2).
All ranks do the same arithmetic on the same numbers. On different processors the last bits of a
product may differ: then rank 0's P is sent to all, and P·Qᵀ is summed without a matrix product.
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
_TINY = 1e-8

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
        self._ranks = [min(rank, *size) for size in self._sizes]
        self._alike = processors_are_alike(transport)
        rows = [r * n for r, (n, _) in zip(self._ranks, self._sizes, strict=True)]
        columns = [r * m for r, (_, m) in zip(self._ranks, self._sizes, strict=True)]
        self._left, self._right = numpy.zeros(sum(rows), "f4"), numpy.empty(sum(columns), "f4")
        self._right[:] = numpy.random.RandomState(SEED).standard_normal(sum(columns))
        self._p = _split(self._left, rows, self._ranks)
        self._q = _split(self._right, columns, self._ranks)
        self._lost = numpy.zeros(sum(n * m for n, m in self._sizes), "f4")
        self.error = 0.0
        self.nbytes = 0
        self.coding = 0.0

    def mean(self, buffer: Array, *, measure: bool) -> bool:
        """Replace ``buffer`` by its mean; false if a number was not finite."""
        start = time.perf_counter()
        numpy.add(buffer, self._lost, buffer)
        finite = not is_suspect(buffer)
        if not finite:
            buffer.fill(0)
        matrices, lost = self._matrices(buffer), self._matrices(self._lost)
        for matrix, p, q in zip(matrices, self._p, self._q, strict=True):
            numpy.matmul(q, matrix.T, out=p)
        waited = self._averaged(self._left)
        for p in self._p:
            orthonormalise(p)
        if not self._alike:
            self._transport.comm.Bcast(self._left)
        for matrix, p, q in zip(matrices, self._p, self._q, strict=True):
            numpy.matmul(p, matrix, out=q)
        waited += self._averaged(self._right)
        self._revive()
        numpy.copyto(self._lost, buffer)
        before = float(numpy.linalg.norm(buffer)) if measure else 0.0
        for matrix, gone, p, q in zip(matrices, lost, self._p, self._q, strict=True):
            self._product(p, q, matrix)
            numpy.subtract(gone, matrix, gone)
        self.coding = time.perf_counter() - start - waited
        if measure:
            self.error = float(numpy.linalg.norm(self._lost)) / (before or 1.0)
        share = 2 * (self._transport.size - 1) / self._transport.size
        self.nbytes = int(share * (self._left.nbytes + self._right.nbytes))
        return finite

    def state(self) -> dict[str, Any]:
        """Return what is kept from step to step."""
        return {"lost": self._lost, "right": self._right.copy()}

    def restore(self, state: dict[str, Any]) -> None:
        """Continue with such a state."""
        numpy.copyto(self._lost, state["lost"])
        if "right" in state and state["right"].shape == self._right.shape:
            numpy.copyto(self._right, state["right"])

    def _averaged(self, flat: Array) -> float:
        """Average exactly, and return the seconds for that."""
        start = time.perf_counter()
        self._mean(flat)
        return time.perf_counter() - start

    def _revive(self) -> None:
        """Reinitialize rows that became zero, after a step without gradient."""
        for q in self._q:
            for row in q:
                if not row.any():
                    row[:] = numpy.random.RandomState(SEED).standard_normal(row.size)

    def _matrices(self, buffer: Array) -> list[Array]:
        ends = numpy.cumsum([0, *(n * m for n, m in self._sizes)]).tolist()
        spans = zip(itertools.pairwise(ends), self._sizes, strict=True)
        return [buffer[a:b].reshape(size) for (a, b), size in spans]

    def _product(self, p: Array, q: Array, out: Array) -> None:
        if self._alike:
            numpy.matmul(p.T, q, out=out)
            return
        out.fill(0)
        for left, right in zip(p, q, strict=True):
            for row, factor in zip(out, left, strict=True):
                numpy.add(row, factor * right, row)


def orthonormalise(rows: Array) -> None:
    """Make rows orthonormal by the modified Gram-Schmidt method; zeros stay zeros."""
    for n, row in enumerate(rows):
        for before in rows[:n]:
            numpy.subtract(row, numpy.dot(before, row) * before, out=row)
        numpy.divide(row, numpy.linalg.norm(row) + numpy.float32(_TINY), out=row)


def processors_are_alike(transport: Transport) -> bool:
    """Return whether all ranks will round a product in the same way; collective."""
    features = numpy.show_config(mode="dicts").get("SIMD Extensions")
    threads = {k: v for k, v in os.environ.items() if k.endswith("_NUM_THREADS") or "OPENBLAS" in k}
    own: Any = json.dumps([features, numpy.__version__, threads], sort_keys=True)
    return len({*transport.comm.allgather(own)}) == 1


def _split(memory: Array, sizes: Sequence[int], ranks: Sequence[int]) -> list[Array]:
    ends = numpy.cumsum([0, *sizes]).tolist()
    spans = zip(itertools.pairwise(ends), ranks, strict=True)
    return [memory[a:b].reshape(rank, -1) for (a, b), rank in spans]
