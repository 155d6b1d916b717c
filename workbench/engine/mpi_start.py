"""Load MPI's library in one process, and start MPI in another that is forked from it."""

from __future__ import annotations

import sys


def defer() -> None:
    """Load MPI without starting it: a process that has started it must not be forked."""
    import mpi4py

    mpi4py.rc.initialize = False
    mpi4py.rc.finalize = True
    from mpi4py import MPI  # noqa: F401  # to have it loaded


def begin() -> None:
    """Start MPI if it was deferred; otherwise the import of mpi4py does that."""
    if "mpi4py.MPI" not in sys.modules:
        return
    import mpi4py
    from mpi4py import MPI

    if not MPI.Is_initialized():
        mpi4py.rc.initialize = True
        MPI.Init_thread()
