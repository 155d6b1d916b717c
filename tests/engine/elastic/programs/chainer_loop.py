"""Chainer's classifier in a loop that is written by hand, as its example with a custom loop."""

from __future__ import annotations

from typing import Any

import chainer
import chainermn
import numpy as np

import workbench


class Model(chainer.Chain):
    """Two layers after batch normalization; the first learns its size from the data."""

    def __init__(self, units: int) -> None:
        super().__init__()
        with self.init_scope():
            self.norm = chainer.links.BatchNormalization(2)
            self.first = chainer.links.Linear(None, units)
            self.last = chainer.links.Linear(units, 1)

    def forward(self, x: Any) -> Any:
        return self.last(chainer.functions.tanh(self.first(self.norm(x))))


def train(here: Any, number: int, steps: int | None) -> None:
    options = here.options
    numbers = np.random.RandomState(1)
    np.random.seed(5 + here.rank)
    x = numbers.normal(0, 1, (options.examples, 2)).astype(np.float32)
    y = x.sum(axis=1, keepdims=True) ** 2
    data = chainer.datasets.TupleDataset(x, y, np.arange(options.examples))
    comm = chainermn.create_communicator("naive", here.world)
    if options.scatter:
        data = chainermn.scatter_dataset(data, comm, shuffle=True, seed=5)
    iterator = chainer.iterators.SerialIterator(data, options.batch)
    model = Model(options.units)
    optimizer = chainermn.create_multi_node_optimizer(chainer.optimizers.MomentumSGD(0.05), comm)
    optimizer.setup(model)
    state = {"model": model, "optimizer": optimizer}
    loop = workbench.elastic(state, steps=steps, epochs=options.epochs, data=iterator)
    for step in loop:
        x, y, index = chainer.dataset.concat_examples(step.batch)
        loss = chainer.functions.mean_squared_error(model(x), y)
        model.cleargrads()
        loss.backward()
        optimizer.update()
        if step == 3:
            optimizer.lr *= 0.5
        workbench.report(loss=loss)
        here.noted(number, step, float(loss.array), index.tolist())
    here.ended(*(one.array for _, one in sorted(model.namedparams())), model.norm.avg_mean)
