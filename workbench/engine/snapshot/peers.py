"""What the ranks of a run send each other when a training is saved or resumed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import numpy
from mpi4py import MPI

from workbench.engine.exchange.shared_memory import map_memory
from workbench.engine.exchange.transport import Transport, transport_of
from workbench.engine.snapshot.saved_bytes import new_memory

_CHUNK = 64 << 20


def world_size() -> int:
    """Return the number of ranks of the present run."""
    return int(MPI.COMM_WORLD.size)


class Peers:
    """The ranks of the present run; all methods are collective.

    Their communicator is derived from ``MPI.COMM_WORLD`` of the run, so that a revocation frees
    the ranks that wait here. It is kept from run to run.
    """

    def __init__(self) -> None:
        world = MPI.COMM_WORLD
        self.rank, self.size = int(world.rank), int(world.size)
        self._transport: Transport | None = None
        self._leaders: Any = None
        if self.size > 1:
            self._transport = kept = transport_of(world)
            if "leaders" not in kept.kept:
                color = MPI.UNDEFINED if kept.local_rank else 0
                kept.kept["leaders"] = MPI.Intracomm(world.Split(color, self.rank))
            self._leaders = kept.kept["leaders"]

    @property
    def nodes(self) -> int:
        """The number of nodes."""
        return len(self._transport.nodes) if self._transport is not None else 1

    @property
    def ranks_of_nodes(self) -> list[list[int]]:
        """The ranks of each node, the leader first."""
        return self._transport.nodes if self._transport is not None else [[0]]

    @property
    def local_size(self) -> int:
        """The number of ranks on this node."""
        return self._transport.local_size if self._transport is not None else 1

    @property
    def leader(self) -> int:
        """The lowest rank of this node."""
        return next(ranks[0] for ranks in self.ranks_of_nodes if self.rank in ranks)

    @property
    def is_leader(self) -> bool:
        """Whether this is the lowest rank of its node, which writes for it."""
        return self._transport is None or self._transport.local_rank == 0

    def gather(self, value: Any) -> list[Any]:
        """Return each rank's value, on all ranks."""
        if self._transport is None:
            return [value]
        self._transport.rest()
        found: list[Any] = self._transport.comm.allgather(value)
        return found

    def sum(self, array: Any) -> Any:
        """Return the sum over ranks of an array of one shape and type, on all ranks."""
        if self._transport is None:
            return array
        self._transport.rest()
        total = numpy.empty_like(array)
        self._transport.comm.Allreduce(array, total, MPI.SUM)
        return total

    def gather_to_leaders(self, value: Any) -> list[Any]:
        """Return each rank's value on leaders, and nothing on other ranks."""
        if self._transport is None:
            return [value]
        on_node = self._transport.node.gather((self.rank, value))
        if on_node is None:
            return []
        found = [pair for part in self._leaders.allgather(on_node) for pair in part]
        return [one for _, one in sorted(found, key=lambda pair: pair[0])]

    @property
    def leaders(self) -> list[int]:
        """The lowest rank of each node."""
        return [ranks[0] for ranks in self.ranks_of_nodes]

    def share(self, content: memoryview | None, root: int) -> memoryview:
        """Return the bytes that rank ``root`` has, on all ranks."""
        if self._transport is None:
            assert content is not None
            return content
        nbytes = self._transport.comm.bcast(None if content is None else len(content), root)
        found = new_memory(nbytes) if content is None else numpy.frombuffer(content, "u1")
        for one in _chunks(found):
            self.send(one, root)
        return memoryview(cast(Any, found))

    def send(self, message: Any, root: int) -> None:
        """Send a flat array of bytes that rank ``root`` has into those of the other ranks."""
        if self._transport is not None:
            self._transport.comm.Bcast(message, root)

    def exchange(self, out: Sequence[tuple[int, Any]], into: Sequence[tuple[int, Any]]) -> None:
        """Send flat arrays of bytes to ranks, and receive others.

        Args:
            out: Each with the rank that it is for, in the order in which that one receives.
            into: Each with the rank that it comes from.
        """
        if self._transport is None:
            return
        self._transport.rest()
        comm = self._transport.comm
        pending = [comm.Irecv(one, rank) for rank, whole in into for one in _chunks(whole)]
        pending += [comm.Isend(one, rank) for rank, whole in out for one in _chunks(whole)]
        self._transport.settle_all(pending)

    def shared_memory(self, nbytes: int) -> Any:
        """Return new memory that all ranks of this node have; None if they cannot share any."""
        if self._transport is None or self._transport.local_size == 1 or not nbytes:
            return None
        try:
            return numpy.frombuffer(map_memory(self._transport.node, nbytes), "u1")
        except OSError:
            return None

    def meet_on_node(self) -> None:
        """Wait for the other ranks of this node."""
        if self._transport is not None:
            self._transport.node.Barrier()


def _chunks(whole: Any) -> list[Any]:
    return [whole[start : start + _CHUNK] for start in range(0, len(whole), _CHUNK)]
