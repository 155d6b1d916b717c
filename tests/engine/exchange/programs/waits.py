"""Wait for messages of the other rank, compiled and in Python, while a thread of this one works."""

from __future__ import annotations

import copy
import signal
import threading
import time

import numpy as np
from mpi4py import MPI

from tests.engine.programs.world import found, rank, real, write_found
from workbench.engine.exchange.transport import transport_of

LATE_SECONDS, SOON_SECONDS, TAG = 0.5, 0.05, 31
between = copy.copy(transport_of(real))
between.nodes = [[0], [1]]  # a rank waits without a pause where all are on one
in_python = copy.copy(between)
in_python._waits = None
turns = [0]
waiting = True


def turn() -> None:
    while waiting:
        turns[0] += 1


def interrupt(number: int, frame: object) -> None:
    raise InterruptedError


worker = threading.Thread(target=turn)
worker.start()
signal.signal(signal.SIGALRM, interrupt)
for name, one in {"compiled": between, "python": in_python}.items():
    sent, room = np.arange(4, dtype="f4"), np.zeros(4, "f4")
    real.Barrier()
    if rank == 1:
        time.sleep(LATE_SECONDS)
        one.settle(real.Isend(sent, 0, TAG))
        one.settle(real.Isend(np.zeros(8, "f4"), 0, TAG))
    else:
        request, before, begun = real.Irecv(room, 1, TAG), turns[0], time.perf_counter()
        signal.setitimer(signal.ITIMER_REAL, SOON_SECONDS)
        try:
            one.settle(request)
        except InterruptedError:
            found[f"{name}: heard"] = time.perf_counter() - begun < 0.8 * LATE_SECONDS
        one.settle(request)
        found[f"{name}: waited"] = time.perf_counter() - begun > 0.9 * LATE_SECONDS
        found[f"{name}: worked meanwhile"] = turns[0] > before + 100
        found[f"{name}: right"] = np.array_equal(room, sent) and bool(request.Test())
        try:
            one.settle(real.Irecv(room, 1, TAG), patience=1e-4)
        except MPI.Exception as error:
            found[f"{name}: too long"] = error.Get_error_class() == MPI.ERR_TRUNCATE
waiting = False
worker.join()
signal.signal(signal.SIGALRM, signal.SIG_DFL)
found["kind"] = type(between._waits).__name__
write_found()
