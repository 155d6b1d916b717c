"""Train by compiled functions, whose compiler only traces: a model, then a whole step."""

from __future__ import annotations

import json

import torch

torch.manual_seed(10)
model = torch.nn.Linear(4, 1)
compiled = torch.compile(model, backend="eager")
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
losses = []
for _ in range(5):
    optimizer.zero_grad()
    loss = compiled(torch.randn(8, 4)).square().mean()
    loss.backward()
    optimizer.step()
    losses.append(loss.item())


def train(inputs: torch.Tensor) -> None:
    """Train on one batch."""
    optimizer.zero_grad()
    loss = model(inputs).square().mean()
    loss.backward()
    optimizer.step()


compiled_train = torch.compile(train, backend="eager")
before = model.weight.detach().clone()
for _ in range(5):
    compiled_train(torch.randn(8, 4))
print(json.dumps({"loss": losses, "changed": not torch.equal(before, model.weight)}))
