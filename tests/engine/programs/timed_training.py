"""A training to be timed: it waits for data, computes for a while, and exchanges an array."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import numpy as np
from mpi4py import MPI

from workbench.engine.reporting.run_log import RunLog
from workbench.frameworks.chainer.trainer_time import TrainerTime


class Iterator:
    """Data that takes some seconds."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds

    def next(self) -> None:
        time.sleep(self._seconds)


class Updater:
    """As much of Chainer's updater as is timed."""

    def __init__(self, comm: Any, data: float, compute: float, nbytes: int) -> None:
        self._iterators = {"main": Iterator(data)}
        self._comm, self._compute = comm, compute
        self._gradients = np.zeros(nbytes // 4, np.float32)

    def update(self) -> None:
        self._iterators["main"].next()
        time.sleep(self._compute)
        self._comm.Allreduce(MPI.IN_PLACE, self._gradients)


def train(
    comm: Any,
    folder: Path,
    *,
    data: float = 0.0,
    compute: float = 0.02,
    nbytes: int = 4000,
    steps: int = 40,
    leader: int = 0,
) -> dict[str, float]:
    """Return what a rank reports of its steps; ``data`` and ``compute`` are seconds of each."""
    log = RunLog("260101-000000-arun", comm.rank, folder / "log")
    timing, updater = (
        TrainerTime(log, leader=leader, batch=32),
        Updater(comm, data, compute, nbytes),
    )
    with timing.installed(updater):
        for iteration in range(1, steps + 1):
            updater.update()
            timing.step(iteration)
    timing.finish(steps)
    values = (one for one in log._samples if isinstance(one, tuple))
    return {name: value for _, _, pairs in values for name, value in pairs}
