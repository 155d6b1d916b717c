"""Train a model that two ranks divide between them, as ChainerMN does it and by hand."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import chainer
import chainer.functions as functions
import chainer.links as links
import chainermn
import numpy as np

from workbench.engine.reporting.run_log import RunLog
from workbench.frameworks.chainer.trainer_time import TrainerTime

BATCH, UNITS, STEPS = 64, 2_000, 40


class Part(chainer.Chain):
    """Half of a perceptron."""

    def __init__(self, units: int) -> None:
        super().__init__()
        with self.init_scope():
            self.layer = links.Linear(UNITS, units)


class Updater:
    """As much of Chainer's updater as is timed."""

    def __init__(self, optimizer: Any, step: Callable[[], None]) -> None:
        self.optimizer, self._step = optimizer, step

    def update(self) -> None:
        self._step()

    def get_all_optimizers(self) -> dict[str, Any]:
        return {"main": self.optimizer}


def by_chainermn(mpi_comm: Any) -> Updater:
    """Activations go forth and gradients of them come back through ChainerMN's functions."""
    comm = chainermn.create_communicator("naive", mpi_comm)
    part = Part(UNITS if comm.rank == 0 else 10)
    optimizer = chainer.optimizers.SGD(0.01).setup(part)
    x, t = np.ones((BATCH, UNITS), "f4"), np.zeros(BATCH, "i4")

    def step() -> None:
        part.cleargrads()
        if comm.rank == 0:
            h = functions.relu(part.layer(x))
            chainermn.functions.send(h, comm, rank=1).backward()
        else:
            h = chainermn.functions.recv(comm, rank=0)
            functions.softmax_cross_entropy(part.layer(h), t).backward()
        optimizer.update()

    return Updater(optimizer, step)


def by_hand(mpi_comm: Any) -> Updater:
    """One computes while the other waits, and then the other way round."""
    values = np.ones((BATCH, UNITS), "f4")
    part = Part(10)
    optimizer = chainer.optimizers.SGD(0.01).setup(part)

    def step() -> None:
        if mpi_comm.rank == 0:
            time.sleep(0.01)
            mpi_comm.Send(values, 1)
            mpi_comm.Recv(values, 1)
        else:
            mpi_comm.Recv(values, 0)
            time.sleep(0.01)
            mpi_comm.Send(values, 0)

    return Updater(optimizer, step)


def train(updater: Updater, rank: int, folder: Path) -> dict[str, float]:
    """Return what a rank tells of its steps."""
    log = RunLog("260101-000000-arun", rank, folder / "log")
    timing = TrainerTime(log, batch=BATCH)
    with timing.installed(updater):
        for iteration in range(1, STEPS + 1):
            updater.update()
            timing.step(iteration)
    timing.finish(STEPS)
    values = (one for one in log._samples if isinstance(one, tuple))
    return {name: value for _, _, pairs in values for name, value in pairs}
