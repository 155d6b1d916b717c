"""Train with checkpoints, whose backward passes are nested, and in a second thread."""

from __future__ import annotations

import json
import threading

import torch
from torch.utils.checkpoint import checkpoint

torch.manual_seed(9)
model = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
losses = []


def train_another() -> None:
    """Train a model beside the main thread's."""
    other = torch.nn.Linear(4, 1)
    another = torch.optim.SGD(other.parameters(), lr=0.01)
    for _ in range(3):
        other(torch.randn(2, 4)).mean().backward()
        another.step()


thread = threading.Thread(target=train_another)
thread.start()
for _ in range(5):
    optimizer.zero_grad()
    inputs = torch.randn(8, 4, requires_grad=True)
    loss = checkpoint(lambda x: model(x).square().mean(), inputs, use_reentrant=True) * 3
    loss.backward()
    optimizer.step()
    losses.append(loss.item())
thread.join()
print(json.dumps({"loss": losses}))
