"""A training with 100 MB of parameters and momentum, as the source of a cell."""

from __future__ import annotations

import tempfile

import chainer
import chainermn
import numpy
from chainer import functions, links
from chainer.training import StandardUpdater, Trainer

UNITS = 3_500  # 12.3 million numbers of 4 bytes, and as many of momentum

comm = chainermn.create_communicator("naive")
numpy.random.seed(0)
examples = numpy.random.rand(600, UNITS).astype("f")
data = chainermn.scatter_dataset(chainer.datasets.TupleDataset(examples, examples), comm)
model = links.Classifier(links.Linear(UNITS, UNITS), functions.mean_squared_error)
model.compute_accuracy = False
momentum = chainer.optimizers.MomentumSGD(1e-6)
optimizer = chainermn.create_multi_node_optimizer(momentum, comm)
optimizer.setup(model)
updater = StandardUpdater(chainer.iterators.SerialIterator(data, 4), optimizer)
with tempfile.TemporaryDirectory() as folder:
    Trainer(updater, (100_000, "iteration"), folder).run()
