"""Train by DistributedDataParallel; rank 0 writes when each step ended: ``FILE STEPS``.

The model is small enough for steps of about 20 ms on a core, and the data is made up.
"""

from __future__ import annotations

import itertools
import json
import os
import sys
import time

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

path, steps = sys.argv[1], int(sys.argv[2])
torch.set_num_threads(1)
dist.init_process_group("gloo")
torch.manual_seed(0)
layers = [torch.nn.Linear(784, 1200), torch.nn.ReLU(), torch.nn.Linear(1200, 1200)]
model = DistributedDataParallel(
    torch.nn.Sequential(*layers, torch.nn.ReLU(), torch.nn.Linear(1200, 10))
)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
images = torch.randn(64, 784, generator=torch.Generator().manual_seed(dist.get_rank()))
labels = torch.arange(64) % 10
ended: list[float] = []
for _ in range(steps):
    optimizer.zero_grad()
    torch.nn.functional.cross_entropy(model(images), labels).backward()
    optimizer.step()
    ended.append(time.time())
if dist.get_rank() == 0:
    # The first steps allocate memory, and divide the gradients into buckets.
    seconds = [b - a for a, b in itertools.pairwise(ended[9:])]
    with open(f"{path}.part", "w", encoding="utf-8") as file:
        json.dump({"first": ended[0], "steps": seconds}, file)
    os.replace(f"{path}.part", path)
dist.destroy_process_group()
