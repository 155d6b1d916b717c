"""Accumulate the gradients of four batches for each step."""

from __future__ import annotations

import json

import torch
from torch.utils.data import DataLoader, TensorDataset

BATCHES = 4
torch.manual_seed(2)
x = torch.randn(96, 4)
loader = DataLoader(TensorDataset(x, x.sum(1, keepdim=True)), batch_size=4)
model = torch.nn.Linear(4, 1)
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
means, running = [], 0.0
for number, (inputs, wanted) in enumerate(loader, 1):
    loss = torch.nn.functional.mse_loss(model(inputs), wanted) / BATCHES
    loss.backward()
    running += loss.item()
    if number % BATCHES == 0:
        optimizer.step()
        optimizer.zero_grad()
        means.append(running)
        running = 0.0
print(json.dumps({"loss": means}))
