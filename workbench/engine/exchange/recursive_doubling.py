"""Allreduce by recursive doubling: fewest messages, for small buckets.

Thakur, Rabenseifner and Gropp, "Optimization of Collective Communication Operations in MPICH"
(2005). Two ranks that exchange add the same two numbers, so all get the same bits.
"""

from __future__ import annotations

import numpy
from mpi4py import MPI

from workbench.engine.exchange.transport import Array, Transport

_TAG = 21


def doubling_sum(transport: Transport, comm: MPI.Intracomm, own: Array, room: Array) -> None:
    """Replace a flat array by its sum over the ranks of ``comm``.

    Args:
        room: A buffer as large as ``own``.
    """
    rank, size = comm.rank, comm.size
    power = 1 << (size.bit_length() - 1)
    beyond = size - power
    if rank >= power:
        transport.settle(comm.Isend(own, rank - power, _TAG))
        transport.settle(comm.Irecv(own, rank - power, _TAG))
        return
    if rank < beyond:
        transport.settle(comm.Irecv(room, rank + power, _TAG))
        numpy.add(own, room, own)
    distance = 1
    while distance < power:
        other = rank ^ distance
        coming = comm.Irecv(room, other, _TAG)
        transport.settle(comm.Isend(own, other, _TAG))
        transport.settle(coming)
        numpy.add(own, room, own)
        distance *= 2
    if rank < beyond:
        transport.settle(comm.Isend(own, rank + power, _TAG))
