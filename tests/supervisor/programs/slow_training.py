"""A training of some seconds on scattered data, as a user would write it."""

from __future__ import annotations

import os
import time
from typing import Any

import chainer
import chainermn
import numpy

EPOCHS = globals().get("epochs", 6)
comm = chainermn.create_communicator("naive")
generator = numpy.random.RandomState(0)
examples = generator.rand(120, 4).astype("f")
whole = chainer.datasets.TupleDataset(examples, examples.sum(axis=1, keepdims=True))
part = chainermn.scatter_dataset(whole, comm, shuffle=True, seed=1)
model = chainer.links.Classifier(chainer.links.Linear(4, 1), chainer.functions.mean_squared_error)
model.compute_accuracy = False
optimizer = chainermn.create_multi_node_optimizer(chainer.optimizers.SGD(0.01), comm)
optimizer.setup(model)
iterator = chainer.iterators.SerialIterator(part, 4)
updater = chainer.training.StandardUpdater(iterator, optimizer)
trainer = chainer.training.Trainer(updater, (EPOCHS, "epoch"), os.environ["WORKBENCH_OUTPUT"])


def linger(_: Any) -> None:
    """Make an iteration long enough to be interrupted."""
    time.sleep(0.05)


trainer.extend(linger, trigger=(1, "iteration"))
trainer.run()
print("updates", optimizer.t, "iterations", updater.iteration, "ranks", comm.size)
