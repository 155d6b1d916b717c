"""Train by DistributedDataParallel; then rank 0 waits for others in the way that WAITS names."""

from __future__ import annotations

import os
import time

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

if not dist.is_initialized():
    dist.init_process_group("gloo")
torch.manual_seed(0)
body = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.BatchNorm1d(8), torch.nn.Linear(8, 1))
model = DistributedDataParallel(body)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)


def step() -> None:
    optimizer.zero_grad()
    model(torch.randn(4, 8)).pow(2).mean().backward()
    optimizer.step()


for _ in range(5):
    step()
print("trained", flush=True)
how = os.environ["WAITS"]
if how == "evaluates alone":
    for _ in range(3):
        if dist.get_rank() == 0:
            model(torch.randn(4, 8))
        else:
            step()
elif dist.get_rank():
    time.sleep(60)
elif how == "one more step":
    step()
elif how == "a handle":
    dist.all_reduce(torch.ones(1), async_op=True).wait()
