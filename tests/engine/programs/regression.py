"""Train a linear regression by ChainerMN as a run does, for programs that measure or scale it."""

from __future__ import annotations

from typing import Any

import chainer
import chainermn
import numpy as np

from tests.engine.programs.world import folder, rank, size, worlds
from workbench.engine.reporting.run_log import RunLog
from workbench.engine.run_context import RunContext, set_current
from workbench.frameworks.chainer.framework import ChainerFramework

BATCH = 16
ChainerFramework().install()
worlds.offer(0)
run = RunContext(RunLog("260101-000000-arun", rank, folder / f"rank-{rank}" / "log"))
set_current(run)


def trainer(comm: Any, optimizer: Any, data: Any, steps: int) -> Any:
    """Return a trainer of a model with four weights, which are zero."""
    model = chainer.links.Classifier(
        chainer.links.Linear(4, 1, initialW=np.zeros((1, 4), np.float32), nobias=True),
        lossfun=chainer.functions.mean_squared_error,
    )
    model.compute_accuracy = False
    many = chainermn.create_multi_node_optimizer(optimizer, comm).setup(model)
    iterator = chainer.iterators.SerialIterator(data, BATCH)
    updater = chainer.training.StandardUpdater(iterator, many)
    return chainer.training.Trainer(updater, (steps, "iteration"), out=str(folder / "out"))


def examples(amount: int = 4096) -> tuple[Any, Any]:
    """Return inputs and noisy outputs, the same on all ranks."""
    numbers = np.random.RandomState(0)
    x = numbers.normal(0, 1, (amount, 4)).astype(np.float32)
    y = x @ np.full((4, 1), 0.5, np.float32)
    y += numbers.normal(0, 2.0, y.shape).astype(np.float32)
    return x, y


def own(x: Any, y: Any) -> Any:
    """Return this rank's part of the examples."""
    return chainer.datasets.TupleDataset(x[rank::size], y[rank::size])
