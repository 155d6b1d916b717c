"""Train by ``backward`` and ``update``, with Adam, and report values by ``chainer.report``."""

from __future__ import annotations

import json

import chainer
import chainer.functions as F  # noqa: N812  # Chainer's own abbreviation
import chainer.links as L  # noqa: N812  # Chainer's own abbreviation
import numpy as np

model = L.Linear(4, 1)
optimizer = chainer.optimizers.Adam()
optimizer.setup(model)
x = np.random.RandomState(3).rand(8, 4).astype("f")
losses = []
for step in range(6):
    loss = F.mean_squared_error(model(x), x.sum(1, keepdims=True))
    model.cleargrads()
    loss.backward()
    chainer.report({"loss": loss, "step": step, "text": "none", "all": x}, model)
    optimizer.update()
    losses.append(float(loss.array))
print(json.dumps({"loss": losses}))
