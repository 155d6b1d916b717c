"""Sums over MPI's ranks in one call of C, without mpi4py's conversion of arguments."""

from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING

from mpi4py import MPI

from workbench.core.performance.exchange_model import Algorithm
from workbench.engine.exchange.direct_waits import address_of, compiled
from workbench.engine.exchange.recursive_doubling import SHORT_BYTES, TAG

if TYPE_CHECKING:
    from workbench.engine.exchange.message_kernels import Sums


def direct_sums(comm: MPI.Intracomm) -> Sums | None:
    """Return sums of single precision over the ranks of ``comm``, for as long as that lives.

    None where they are not compiled, or mpi4py's library does not give its functions away.
    """
    functions = address_of("MPI_Allreduce"), address_of("MPI_Sendrecv")
    if compiled is None or not all(functions):
        return None
    return compiled.Sums(
        functions,
        (MPI._handleof(comm), MPI._handleof(MPI.FLOAT), MPI._handleof(MPI.SUM)),
        int(MPI.IN_PLACE),
        MPI._sizeof(MPI.Comm) == ctypes.sizeof(ctypes.c_void_p),
        MPI.PROC_NULL,
        (comm.rank, comm.size),
        TAG,
        MPI.Exception,
    )


def is_direct(algorithm: Algorithm, nbytes: int) -> bool:
    """Return whether `direct_sums` has an algorithm; where waits are long, a rank has to sleep."""
    return algorithm is Algorithm.MPI or (algorithm is Algorithm.DOUBLING and nbytes <= SHORT_BYTES)
