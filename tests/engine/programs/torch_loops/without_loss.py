"""Take steps along gradients that come from no scalar's backward pass."""

from __future__ import annotations

import json

import torch

weight = torch.ones(3, requires_grad=True)
optimizer = torch.optim.SGD([weight], lr=0.1)
for _ in range(3):
    optimizer.zero_grad()
    (weight * 2).backward(torch.ones(3))
    optimizer.step()
for _ in range(2):
    weight.grad = torch.autograd.grad(weight.square().sum(), weight)[0]
    optimizer.step()
print(json.dumps({"steps": 5}))
