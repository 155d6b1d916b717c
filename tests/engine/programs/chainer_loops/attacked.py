"""Train on attacked inputs, two models in turn: the first pass's gradients are thrown away."""

from __future__ import annotations

import json

import chainer
import chainer.functions as F  # noqa: N812  # Chainer's own abbreviation
import chainer.links as L  # noqa: N812  # Chainer's own abbreviation
import numpy as np

random = np.random.RandomState(3)
optimizers = {"first": chainer.optimizers.SGD(0.1), "second": chainer.optimizers.SGD(0.1)}
for optimizer in optimizers.values():
    optimizer.setup(L.Linear(4, 1))
losses: dict[str, list[float]] = {"first": [], "second": []}
for _ in range(6):
    for name, optimizer in optimizers.items():
        model = optimizer.target
        x = chainer.Variable(random.rand(8, 4).astype("f"))
        y = x.array.sum(1, keepdims=True)
        model.cleargrads()
        F.mean_squared_error(model(x), y).backward()
        attacked = x.array + 0.1 * np.sign(x.grad)
        model.cleargrads()
        loss = F.mean_squared_error(model(attacked), y)
        loss.backward()
        optimizer.update()
        losses[name].append(float(loss.array))
print(json.dumps(losses))
