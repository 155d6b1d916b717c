"""Train by ``optimizer.update`` with a loss function, and evaluate after each of three epochs."""

from __future__ import annotations

import json

import chainer
import chainer.links as L  # noqa: N812  # Chainer's own abbreviation
import numpy as np

draw = np.random.RandomState(3)
inputs = draw.rand(40, 4).astype("f")
labels = (inputs.sum(1) > 2).astype("i")
data = chainer.datasets.TupleDataset(inputs, labels)
batches = chainer.iterators.SerialIterator(data, 8)
tests = chainer.iterators.SerialIterator(data, 8, repeat=False, shuffle=False)
model = L.Classifier(L.Linear(4, 2))
optimizer = chainer.optimizers.MomentumSGD(lr=0.1)
optimizer.setup(model)
losses, accuracies = [], []
while batches.epoch < 3:
    x, t = chainer.dataset.concat_examples(batches.next())
    optimizer.update(model, x, t)
    losses.append(float(model.loss.array))
    accuracies.append(float(model.accuracy.array))
    if batches.is_new_epoch:
        optimizer.lr *= 0.5
        tests.reset()
        for batch in tests:
            with chainer.using_config("train", False), chainer.no_backprop_mode():
                model(*chainer.dataset.concat_examples(batch))
print(json.dumps({"loss": losses, "accuracy": accuracies}))
