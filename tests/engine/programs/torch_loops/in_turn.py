"""Train two models one after the other, each by an optimizer of its own, in one cell."""

from __future__ import annotations

import json

import torch

torch.manual_seed(6)
x = torch.randn(16, 4)
losses: list[float] = []


def train(steps: int) -> None:
    """Train a new model."""
    model = torch.nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(steps):
        optimizer.zero_grad()
        loss = (model(x) - x.sum(1, keepdim=True)).square().mean()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())


train(7)
train(5)
print(json.dumps({"loss": losses}))
