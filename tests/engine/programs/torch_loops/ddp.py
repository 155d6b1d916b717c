"""Train by DistributedDataParallel on parts of the data, for as many epochs as EPOCHS says."""

from __future__ import annotations

import json
import os

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

dist.init_process_group("gloo")
try:
    torch.manual_seed(7)
    x = torch.randn(64, 4)
    data = TensorDataset(x, x.sum(1, keepdim=True))
    sampler: DistributedSampler[object] = DistributedSampler(data)
    loader = DataLoader(data, batch_size=8, sampler=sampler)
    model = DistributedDataParallel(torch.nn.Linear(4, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    losses = []
    for epoch in range(int(os.environ.get("EPOCHS", "3"))):
        sampler.set_epoch(epoch)
        for inputs, wanted in loader:
            optimizer.zero_grad()
            loss = torch.nn.functional.mse_loss(model(inputs), wanted)
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
    print(json.dumps({"loss": losses}), flush=True)
finally:
    dist.destroy_process_group()
