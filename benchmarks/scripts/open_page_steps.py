"""Train an MLP while a page follows it, as a run that has just begun and as one that is old.

Arguments: a file that says, in epoch seconds, when the first phase begins; the seconds of a phase;
the phases, as words; and a file for the moments at which rank 0's iterations ended. A phase that is
called ``old`` or ``held`` simulates a run that began twenty minutes ago.
"""

import gc
import json
import os
import sys
import time

import chainer
import chainermn
import numpy as np
from chainer.training import extensions
from mpi4py import MPI

from benchmarks.scripts.mlp import MLP, images
from workbench.engine.reporting.run_log import RunLog

OLD_SECONDS = 1200.0
BATCH, UNITS = 64, 256
RANK = MPI.COMM_WORLD.rank


class Phases(chainer.training.Extension):
    """Notes when iterations end, and gives the run its age."""

    trigger = (1, "iteration")

    def __init__(self, start, seconds, names):
        self.moments, self.is_over = [], False
        self._path, self._seconds, self._names = start, seconds, names
        self._start, self._number = 0.0, -1
        (self._log,) = (one for one in gc.get_objects() if isinstance(one, RunLog))

    def __call__(self, trainer):
        now = time.time()
        if not self._start:
            if not os.path.exists(self._path):
                return
            with open(self._path, encoding="utf-8") as file:
                self._start = float(file.read())
        self.moments.append(now)
        number = int((now - self._start) // self._seconds)
        self.is_over = number >= len(self._names)
        if number != self._number and number >= 0 and not self.is_over:
            self._number = number
            age = 0.0 if self._names[number] == "young" else OLD_SECONDS
            self._log._began = time.monotonic() - age


def main():
    start, seconds, names, times = sys.argv[1:]
    np.random.seed(0)
    comm = chainermn.create_communicator("naive")
    model = chainer.links.Classifier(MLP(UNITS))
    optimizer = chainermn.create_multi_node_optimizer(chainer.optimizers.Adam(), comm)
    optimizer.setup(model)
    data = chainermn.scatter_dataset(images(0) if RANK == 0 else None, comm, shuffle=True, seed=0)
    iterator = chainer.iterators.SerialIterator(data, BATCH)
    updater = chainer.training.StandardUpdater(iterator, optimizer)
    phases = Phases(start, float(seconds), names.split(","))

    def is_over(trainer):  # rank 0 decides, seldom
        is_asked = trainer.updater.iteration % 100 == 0
        return bool(is_asked and comm.mpi_comm.bcast(phases.is_over))

    trainer = chainer.training.Trainer(updater, is_over, out=os.path.dirname(times))
    trainer.extend(phases)
    if RANK == 0:
        trainer.extend(extensions.LogReport(filename=None))
    trainer.run()
    if RANK == 0:
        with open(times, "w", encoding="utf-8") as file:
            json.dump(phases.moments, file)


if __name__ == "__main__":
    main()
