"""Reduce Python objects with calls that can be watched and interrupted.

mpi4py's own lowercase reductions use a hidden duplicate of the communicator. The first of them
creates it while holding the GIL, so a rank that waits there cannot report; and the duplicate is not
revoked with the communicator, so a rank that waits later cannot be freed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import accumulate
from typing import Any

from mpi4py import MPI

Operation = Callable[[Any, Any], Any]
_gather, _bcast, _allgather = MPI.Intracomm.gather, MPI.Intracomm.bcast, MPI.Intracomm.allgather


def reduce(comm: MPI.Intracomm, sendobj: Any, op: Operation = MPI.SUM, root: int = 0) -> Any:
    """Return the reduction of all ranks' objects on ``root``, and None elsewhere."""
    found = _gather(comm, sendobj, root)
    return None if found is None else fold(found, op)


def allreduce(comm: MPI.Intracomm, sendobj: Any, op: Operation = MPI.SUM) -> Any:
    """Return the reduction of all ranks' objects."""
    return _bcast(comm, reduce(comm, sendobj, op))


def scan(comm: MPI.Intracomm, sendobj: Any, op: Operation = MPI.SUM) -> Any:
    """Return the reduction of the objects of the ranks up to this one."""
    return [*accumulate(_allgather(comm, sendobj)[: comm.rank + 1], op)][-1]


def exscan(comm: MPI.Intracomm, sendobj: Any, op: Operation = MPI.SUM) -> Any:
    """Return the reduction of the objects of the ranks before this one; None on the first."""
    found = _allgather(comm, sendobj)[: comm.rank]
    return [*accumulate(found, op)][-1] if found else None


def fold(objects: Sequence[Any], op: Operation) -> Any:
    """Return the reduction in the order of MPI's tree, which determines rounding."""
    level = [*objects]
    while len(level) > 1:
        pairs = [level[at : at + 2] for at in range(0, len(level), 2)]
        level = [op(*pair) if len(pair) == 2 else pair[0] for pair in pairs]
    return level[0]


REDUCTIONS = {"reduce": reduce, "allreduce": allreduce, "scan": scan, "exscan": exscan}
