"""Train on batches that reach over the end of an epoch, as Chainer's iterators give them."""

from __future__ import annotations

import json

import chainer
import chainer.functions as F  # noqa: N812  # Chainer's own abbreviation
import chainer.links as L  # noqa: N812  # Chainer's own abbreviation
import numpy as np

data = np.random.RandomState(3).rand(10, 4).astype("f")
batches = chainer.iterators.SerialIterator(data, 4)
model = L.Linear(4, 1)
optimizer = chainer.optimizers.SGD()
optimizer.setup(model)
losses = []
while batches.epoch < 2:
    x = chainer.dataset.concat_examples(batches.next())
    loss = F.mean_squared_error(model(x), x.sum(1, keepdims=True))
    model.cleargrads()
    loss.backward()
    optimizer.update()
    losses.append(float(loss.array))
print(json.dumps({"loss": losses, "epoch": batches.epoch_detail}))
