"""A ring over one socket to each neighbour, in one call of C.

MPI copies what it receives, and between two of its messages Python decides what follows. In one
call of C an exchange of 100 MB takes about 0.6 of the processor time. Where this is not compiled,
or a rank does not reach its neighbour, MPI's messages are used.
"""

from __future__ import annotations

from collections.abc import Sequence

from mpi4py import MPI

from workbench.engine.compiled_modules import require_current
from workbench.engine.exchange.parallel_sockets import Neighbours, open_neighbours
from workbench.engine.exchange.transport import Array

try:
    from workbench.engine.exchange import ring_kernels

    require_current(ring_kernels)
except ImportError:  # built without a C compiler, for another system, or for another Python
    ring_kernels = None  # type: ignore[assignment]  # who uses it asks first


class SocketRing:
    """The sockets of one rank, and the sums that go round over them.

    Args:
        neighbours: With one socket each.
    """

    def __init__(self, neighbours: Neighbours) -> None:
        self.neighbours = neighbours
        self.count = neighbours.count

    def mean(
        self, parts: list[list[Array]], rank: int, factor: float
    ) -> Sequence[tuple[int, int, bool]]:
        """Replace pieces of single precision by ``factor`` times their sums over the ranks.

        Args:
            parts: Each rank's pieces, of the same sizes on all ranks.

        Returns:
            Part, piece, and whether what came from the previous rank was finite, for each sum with
            a number that is not; a piece may be there both ways.

        Raises:
            MachineError: A neighbour is gone.
        """
        neighbours = self.neighbours
        try:
            return ring_kernels.mean(*neighbours.first, parts, rank, factor, neighbours.look)
        except BaseException as error:
            neighbours.close()  # what is left in them belongs to no other exchange
            if isinstance(error, OSError):
                neighbours.lost(error)
            raise


def open_ring(comm: MPI.Intracomm) -> SocketRing | None:
    """Open a ring over the ranks of ``comm``; collective.

    Returns:
        None on all ranks if one cannot.
    """
    if not comm.allreduce(ring_kernels is not None, MPI.LAND):
        return None
    neighbours = open_neighbours(comm, 1, Neighbours)
    return None if neighbours is None else SocketRing(neighbours)
