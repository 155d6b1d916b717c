"""The ranks as Horovod's calls name them, and the turns in which they make collective calls.

Horovod matches calls by their names. Here all ranks make the same calls in the same order. Before
each they count who has joined, as ``join`` has it: those take part with zeros until all have.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy
from mpi4py import MPI

from workbench.engine.measurement.node_emulation import node_of
from workbench.engine.run_context import current
from workbench.errors import InputError

Shadow = Callable[..., object]
"""Takes part in a call for a rank that has joined; gets what the others say of the call."""


class HorovodWorld:
    """The ranks of one run; its creation is collective."""

    def __init__(self) -> None:
        self.run = current()
        self.comm: Any = MPI.COMM_WORLD.Dup()
        self.rank, self.size = int(self.comm.rank), int(self.comm.size)
        node = node_of(self.comm)
        self.local_rank, self.local_size = int(node.rank), int(node.size)
        leader = node.bcast(self.rank)
        node.Free()
        leaders = sorted({*(places := self.comm.allgather((leader, self.local_rank)))})
        nodes = sorted({one for one, _ in leaders})
        # As Horovod counts: among the nodes that have a rank of this local rank.
        having = [one for one in nodes if (one, self.local_rank) in places]
        self.cross_rank, self.cross_size = having.index(leader), len(having)
        sizes = [sum(one == node_ for one, _ in places) for node_ in nodes]
        self.is_homogeneous = len({*sizes}) == 1
        self.shadows: dict[str, Shadow] = {}
        self._turns = 0

    def turn(self, kind: str, *about: Any) -> None:
        """Begin a collective call, in which ranks that have joined take part by their shadow.

        Args:
            kind: The shadow's name.
            about: What the shadow needs to know.
        """
        if self._count_joined(False):
            self.comm.allgather((kind, about))

    def join(self) -> int:
        """Take part in the others' calls until all ranks have joined; return the last of them."""
        joined_at = self._turns
        while self._count_joined(True) < self.size:
            known = self.comm.allgather(None)
            kind, about = next(one for one in known if one is not None)
            self.shadows[kind](*about)
        return int(max((at, rank) for rank, at in enumerate(self.comm.allgather(joined_at)))[1])

    def _count_joined(self, mine: bool) -> int:
        self._turns += 1
        count = numpy.array([mine], "i4")
        # An exchange of gradients is measured as one, and this is none.
        MPI.Intracomm.Allreduce(self.comm, MPI.IN_PLACE, count)
        return int(count[0])


_world: HorovodWorld | None = None


def init(comm: Any = None, process_sets: Any = None) -> None:
    """Begin; a second call in the same run does nothing, and later cells need none.

    Raises:
        InputError: Not all ranks of the run are meant.
    """
    global _world  # noqa: PLW0603  # Horovod's calls belong to the process
    if comm or process_sets:
        raise InputError(
            "hvd.init() takes all ranks here, and no list of them",
            "leave its arguments out, or install Horovod.",
        )
    if _world is None or _world.run is not current():
        _world = HorovodWorld()


def shutdown() -> None:
    """End; ``init`` may begin again."""
    global _world  # noqa: PLW0603  # likewise
    _world = None


def is_initialized() -> bool:
    """Return whether ``init`` was called, in this run or in an earlier one on these ranks."""
    return _world is not None


def world() -> HorovodWorld:
    """Return the ranks.

    Raises:
        ValueError: Horovod was not initialized, as Horovod says it too.
    """
    if _world is None:
        raise ValueError("Horovod has not been initialized; use hvd.init().")
    return _world


def rank() -> int:
    """Return this rank."""
    return world().rank


def size() -> int:
    """Return the number of ranks."""
    return world().size


def local_rank() -> int:
    """Return this rank's number on its node."""
    return world().local_rank


def local_size() -> int:
    """Return the number of ranks on this node."""
    return world().local_size


def cross_rank() -> int:
    """Return the number of this node among those with this local rank."""
    return world().cross_rank


def cross_size() -> int:
    """Return the number of nodes with this local rank."""
    return world().cross_size


def is_homogeneous() -> bool:
    """Return whether all nodes have as many ranks."""
    return world().is_homogeneous
