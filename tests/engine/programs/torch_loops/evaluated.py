"""Train a network on batches of a loader, and evaluate it after each epoch; say what it saw."""

from __future__ import annotations

import json

import torch
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(1)
x = torch.randn(60, 4)
y = x.sum(1, keepdim=True)
training = DataLoader(TensorDataset(x[:40], y[:40]), batch_size=8, shuffle=True)
held_out = DataLoader(TensorDataset(x[40:], y[40:]), batch_size=4)
model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Tanh(), torch.nn.Linear(8, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
schedule = torch.optim.lr_scheduler.StepLR(optimizer, step_size=1, gamma=0.5)
losses, rates = [], []
for _epoch in range(3):
    for inputs, wanted in training:
        optimizer.zero_grad()
        loss = torch.nn.functional.mse_loss(model(inputs), wanted)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
        rates.append(optimizer.param_groups[0]["lr"])
    schedule.step()
    with torch.no_grad():
        for inputs, wanted in held_out:
            torch.nn.functional.mse_loss(model(inputs), wanted)
print(json.dumps({"loss": losses, "lr": rates}))
