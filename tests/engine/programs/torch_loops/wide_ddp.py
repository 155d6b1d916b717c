"""Exchange 17 MB of gradients in each of 40 steps by DistributedDataParallel.

A step has as many batches as PARTS says, and only the last one exchanges if SILENT is set.
"""

from __future__ import annotations

import contextlib
import os

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

torch.set_num_threads(1)
dist.init_process_group("gloo")
try:
    layers = torch.nn.Linear(1024, 2048), torch.nn.ReLU(), torch.nn.Linear(2048, 1024)
    model = DistributedDataParallel(torch.nn.Sequential(*layers))
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    parts, silent = int(os.environ.get("PARTS", "1")), "SILENT" in os.environ
    for _ in range(40):
        optimizer.zero_grad()
        for part in range(1, parts + 1):
            with model.no_sync() if silent and part < parts else contextlib.nullcontext():
                model(torch.randn(8, 1024)).square().mean().backward()
        optimizer.step()
finally:
    dist.destroy_process_group()
