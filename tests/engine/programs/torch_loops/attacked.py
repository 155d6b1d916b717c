"""Train on attacked inputs: the gradients of the first backward pass are thrown away."""

from __future__ import annotations

import json

import torch

torch.manual_seed(3)
model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.ReLU(), torch.nn.Linear(8, 2))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
judge = torch.nn.CrossEntropyLoss()


def by_optimizer() -> None:
    optimizer.zero_grad()


def by_model() -> None:
    model.zero_grad(set_to_none=False)


def by_parts() -> None:
    for part in model:
        part.zero_grad(set_to_none=False)


def by_hand() -> None:
    for parameter in model.parameters():
        parameter.grad = None


def not_at_all() -> None:
    """Leave the gradients of both passes, which then add up."""


throw_away = by_optimizer
losses = []
for _ in range(8):
    x = torch.randn(16, 4, requires_grad=True)
    y = (x.sum(1) > 0).long()
    optimizer.zero_grad()
    first = judge(model(x), y)
    first.backward()
    attacked = (x + 0.1 * x.grad.sign()).detach()
    throw_away()
    second = judge(model(attacked), y)
    second.backward()
    optimizer.step()
    losses.append(second.item() + (first.item() if throw_away is not_at_all else 0.0))
print(json.dumps({"loss": losses}))
