"""Minimize by L-BFGS, which evaluates the loss several times in a step."""

from __future__ import annotations

import json

import torch

torch.manual_seed(4)
x = torch.randn(50, 4)
y = x.sum(1, keepdim=True)
model = torch.nn.Sequential(torch.nn.Linear(4, 6), torch.nn.Tanh(), torch.nn.Linear(6, 1))
optimizer = torch.optim.LBFGS(model.parameters(), lr=0.1, max_iter=5)
evaluations: list[float] = []


def closure() -> torch.Tensor:
    optimizer.zero_grad()
    loss = torch.nn.functional.mse_loss(model(x), y)
    loss.backward()
    evaluations.append(loss.item())
    return loss


losses = [optimizer.step(closure).item() for _ in range(6)]
print(json.dumps({"loss": losses, "evaluations": len(evaluations)}))
