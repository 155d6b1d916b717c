"""A loop of PyTorch with 100 MB of parameters and momentum, as the source of a cell."""

from __future__ import annotations

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

import workbench

UNITS = 3_500  # 12.3 million numbers of 4 bytes, and as many of momentum

torch.set_num_threads(1)
dist.init_process_group("gloo")
torch.manual_seed(0)
model = DistributedDataParallel(torch.nn.Linear(UNITS, UNITS))
optimizer = torch.optim.SGD(model.parameters(), lr=1e-6, momentum=0.9)
inputs = torch.randn(4, UNITS)
for _ in workbench.elastic({"model": model, "optimizer": optimizer}):
    optimizer.zero_grad()
    model(inputs).square().mean().backward()
    optimizer.step()
