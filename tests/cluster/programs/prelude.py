"""What each cell of the contract has at hand on a real rank; it is put before the cell's text."""

import time

from mpi4py import MPI

from workbench import report  # noqa: F401  # for the cell

rank, barrier, sleep = MPI.COMM_WORLD.rank, MPI.COMM_WORLD.barrier, time.sleep


def kill() -> None:
    import os
    import signal

    os.kill(os.getpid(), signal.SIGKILL)


def spoil() -> None:
    import sys

    sys.modules["workbench"] = None  # type: ignore[assignment]  # what spoils it


def asked_to_stop() -> bool:
    from workbench.engine.run_context import current

    run = current()
    return run is not None and run.boundaries.stop_boundary is not None
