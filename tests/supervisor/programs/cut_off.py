"""Put before a training: nothing of its ranks arrives from iteration 3 on, and rank 0 dies at 5.

With the parameter ``early`` it dies at 2, once all is delivered, and before the first snapshot.
"""

import os
import signal
import time
from collections.abc import Callable
from typing import Any

from mpi4py import MPI

from workbench.engine.run_context import current
from workbench.engine.snapshot.saved_training import SavedTraining

EARLY = bool(globals().get("early"))


def until(look: Callable[[], bool]) -> None:
    while not look():
        time.sleep(0.01)


def cut_off(run: Any) -> None:
    passed, rank = SavedTraining.passed, MPI.COMM_WORLD.rank

    def pass_boundary(training: SavedTraining, *, is_due: bool) -> None:
        log, iteration = run.log, training.state.iteration
        if iteration == 5:  # rank 0 keeps its points, the others send theirs in vain
            until(lambda: rank == 0 or not log._samples)
        passed(training, is_due=is_due)
        if iteration == 2:
            until(lambda: not log._samples and log.outbox.acknowledged == log.outbox.sequence)
            log.is_due = lambda now: rank > 0
            log.outbox.due = lambda: None
        elif iteration == 5:
            run.snapshots.writer.wait_until_readable()
        if iteration == (2 if EARLY else 5):
            MPI.COMM_WORLD.barrier()
            if rank == 0:
                os.kill(os.getpid(), signal.SIGKILL)

    setattr(SavedTraining, "passed", pass_boundary)  # noqa: B010  # as a type checker wants it
    run.closing.append(lambda: setattr(SavedTraining, "passed", passed))


cut: Any = current()
if cut.snapshots.attempt == 1:
    cut_off(cut)
