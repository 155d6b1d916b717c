"""Measure allreduces over sizes, with MPI's own algorithms and ours."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from statistics import median
from typing import Any

import numpy
import psutil
from mpi4py import MPI

from workbench.core.performance.bandwidth import Exchange, sizes_up_to
from workbench.core.units import size_text
from workbench.engine.exchange.reducer import Reducer
from workbench.engine.exchange.summary import algorithm_name
from workbench.engine.exchange.transport import transport_of
from workbench.engine.measurement.repetition import loops, repeat

# Each rank of a node takes at most this share of the node's free memory.
_SHARE = 0.25
_LOOP_SECONDS = 0.01
_GROWTH = 4.5

Name = tuple[str, str]
"""The library of an allreduce, and the algorithm that it used."""
Way = Callable[[Any], Name]


@dataclass(frozen=True)
class ExchangeLimits:
    """The limits of a measurement of exchanges.

    Args:
        nbytes: Of the largest exchange.
        seconds: For all sizes of one library together; with the links of eight nodes the default
            takes less than two minutes.
        size_seconds: For the repetitions of one size with one library.
    """

    nbytes: int = 256_000_000
    seconds: float = 30.0
    size_seconds: float = 0.8


class Exchanges:
    """Allreduces of growing size on all ranks; creation is collective."""

    def __init__(self, comm: MPI.Intracomm, limits: ExchangeLimits) -> None:
        self.comm = MPI.Intracomm(comm)  # without timed calls, whose meetings would be measured too
        reducer = Reducer(transport_of(comm))
        self.ways: list[Way] = [_library(self.comm), _ours(reducer)]
        self.sizes = sizes_up_to(_most(self.comm, reducer.per_node, limits.nbytes))
        self.left_out: list[str] = []
        self._array = numpy.empty(self.sizes[-1] // 4, numpy.float32)
        self._array.fill(0)  # so that its pages are allocated
        self._size_seconds = limits.size_seconds
        self._left = [limits.seconds] * len(self.ways)
        self._expected = [0.0] * len(self.ways)

    def measure(self, size: int, way: int) -> Exchange | None:
        """Return the measurement of one size on the slowest rank; None if its time is over."""
        array, do = self._array[: max(1, size // 4)], self.ways[way]
        if self.comm.bcast(2 * self._expected[way] > self._left[way]):
            if self.comm.rank == 0:
                self.left_out.append(_too_long(size, do(self._array[:1]), self._expected[way]))
            else:
                do(self._array[:1])
            self._expected[way] *= _GROWTH
            return None
        begun = time.perf_counter()
        once, name = self._once(do, array, 1)
        count = self.comm.bcast(loops(once, _LOOP_SECONDS))
        took = repeat(self.comm, lambda: self._once(do, array, count)[0], self._size_seconds)
        seconds = median(took)
        self._left[way] -= time.perf_counter() - begun
        self._expected[way] = _GROWTH * seconds
        return Exchange(array.nbytes, seconds, self.comm.size, *name)

    def _once(self, do: Way, array: Any, count: int) -> tuple[float, Name]:
        name = ("", "")
        self.comm.Barrier()
        begun = time.perf_counter()
        for _ in range(count):
            name = do(array)
        took = (time.perf_counter() - begun) / count
        return float(self.comm.allreduce(took, MPI.MAX)), name


def _library(comm: MPI.Intracomm) -> Way:
    vendor, _ = MPI.get_vendor()
    name = f"{vendor}'s own choice"

    def do(array: Any) -> Name:
        comm.Allreduce(MPI.IN_PLACE, array)
        return name, ""

    return do


def _ours(reducer: Reducer) -> Way:
    def do(array: Any) -> Name:
        return "workbench", algorithm_name(reducer.mean([array]), reducer.nodes)

    return do


def _most(comm: MPI.Intracomm, per_node: int, nbytes: int) -> int:
    free = psutil.virtual_memory().available * _SHARE / per_node
    least = int(comm.allreduce(free, MPI.MIN))
    return min(nbytes, 1 << (least.bit_length() - 1))


def _too_long(size: int, name: Name, expected: float) -> str:
    return f"{size_text(size)} by {name[0]}: it would have taken {expected:.0f} s each time."
