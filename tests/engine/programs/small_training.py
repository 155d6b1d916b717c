"""A cell that trains for as many iterations as its environment says."""

import os
from typing import Any

import chainer
import chainermn
import numpy

model = chainer.links.Linear(2, 1)


def total(x: Any) -> Any:
    """Return the loss."""
    return chainer.functions.sum(model(x))


comm = chainermn.create_communicator("naive")
optimizer = chainermn.create_multi_node_optimizer(chainer.optimizers.SGD(), comm).setup(model)
iterator = chainer.iterators.SerialIterator(numpy.ones((8, 2), "f"), 4)
updater = chainer.training.StandardUpdater(iterator, optimizer, loss_func=total)
trainer = chainer.training.Trainer(updater, (int(os.environ["STEPS"]), "iteration"))
seen: list[int] = []
trainer.extend(
    lambda trainer: seen.append(trainer.updater.iteration), name="seen", trigger=(1, "iteration")
)
trainer.run()
