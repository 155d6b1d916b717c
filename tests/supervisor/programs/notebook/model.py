"""The second cell: a model, trained for a moment."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import chainer
import chainermn

if TYPE_CHECKING:
    from tests.supervisor.programs.notebook.data import comm, part

model = chainer.links.Classifier(chainer.links.Linear(4, 1), chainer.functions.mean_squared_error)
model.compute_accuracy = False
first = chainermn.create_multi_node_optimizer(chainer.optimizers.SGD(0.01), comm)
first.setup(model)
warm = chainer.training.Trainer(
    chainer.training.StandardUpdater(chainer.iterators.SerialIterator(part, 4), first),
    (7, "iteration"),
    os.environ.get("WORKBENCH_OUTPUT", "result"),
)
steps_before = warm.updater.iteration
warm.run()
steps_after = first.t
