"""Train replicas that outlive their process group by a moment, many times.

A long switch interval makes it likely that one of the group's threads still waits for Python's lock
when the last replica goes.
"""

from __future__ import annotations

import os
import sys
from typing import Any

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel


def train(store: Any) -> None:
    dist.init_process_group("gloo", store=store, rank=rank, world_size=size)
    model = DistributedDataParallel(torch.nn.Linear(20, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    for _ in range(3):
        optimizer.zero_grad()
        model(torch.randn(8, 20)).square().mean().backward()
        optimizer.step()
    dist.destroy_process_group()


rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
port = int(os.environ["MASTER_PORT"])
whole = dist.TCPStore(os.environ["MASTER_ADDR"], port, size, is_master=not rank)
torch.set_num_threads(1)
interval = sys.getswitchinterval()
sys.setswitchinterval(1.0)
try:
    for number in range(40):
        train(dist.PrefixStore(str(number), whole))  # not the keys of an earlier group
finally:
    sys.setswitchinterval(interval)
