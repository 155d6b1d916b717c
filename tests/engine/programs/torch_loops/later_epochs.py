"""Train in the fourth and the fifth epoch, as a script does that has loaded its state."""

from __future__ import annotations

import torch
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

x = torch.ones(12, 1)
data = TensorDataset(x, x)
sampler = DistributedSampler(data, num_replicas=1, rank=0)
model = torch.nn.Linear(1, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for epoch in (3, 4):
    sampler.set_epoch(epoch)
    for given, wanted in DataLoader(data, batch_size=4, sampler=sampler):
        torch.nn.functional.mse_loss(model(given), wanted).backward()
        optimizer.step()
