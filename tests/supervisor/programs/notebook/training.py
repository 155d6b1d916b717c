"""The third cell: a training of the model on the data."""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING, Any

import chainer
import chainermn

if TYPE_CHECKING:
    from tests.supervisor.programs.notebook.data import comm, part
    from tests.supervisor.programs.notebook.model import model

optimizer = chainermn.create_multi_node_optimizer(chainer.optimizers.SGD(0.01), comm)
optimizer.setup(model)
iterator = chainer.iterators.SerialIterator(part, 4)
updater = chainer.training.StandardUpdater(iterator, optimizer)
trainer = chainer.training.Trainer(updater, (10_000, "epoch"), os.environ["WORKBENCH_OUTPUT"])


def linger(_: Any) -> None:
    """Make an iteration long enough to be interrupted."""
    time.sleep(0.03)


trainer.extend(linger, trigger=(1, "iteration"))
trainer.run()
