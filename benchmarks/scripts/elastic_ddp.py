"""Train by DistributedDataParallel through changes of its ranks: ``FILE SNAPSHOT``.

In a run of ours by `workbench.elastic`; under torchrun with a snapshot of its own, which is read
when the workers are started again. When a step has ended, rank 0 adds a line with the time, the
world size and the number of the step to FILE; each rank writes its process to FILE.RANK. Model and
momentum have 100 MB.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

UNITS = 3_500  # 12.3 million numbers of 4 bytes, and as many of momentum
EVERY = 10  # steps between snapshots of torchrun's loop

path, snapshot = Path(sys.argv[1]), Path(sys.argv[2])
torch.set_num_threads(1)
dist.init_process_group("gloo")
torch.manual_seed(0)
layer = torch.nn.Linear(UNITS, UNITS)
model = DistributedDataParallel(layer)
optimizer = torch.optim.SGD(model.parameters(), lr=1e-6, momentum=0.9)
inputs = torch.randn(4, UNITS)
Path(f"{path}.{dist.get_rank()}").write_text(str(os.getpid()), encoding="utf-8")


def ours() -> Iterator[int]:
    """Yield the number of each step of a run of ours."""
    import workbench

    yield from workbench.elastic({"model": model, "optimizer": optimizer})


def theirs() -> Iterator[int]:
    """Yield the number of each step, and save as torchrun's convention is: rank 0, at intervals."""
    number = 0
    if snapshot.exists():
        saved = torch.load(snapshot)
        layer.load_state_dict(saved["model"])
        optimizer.load_state_dict(saved["optimizer"])
        number = saved["step"]
    while True:
        yield number
        number += 1
        if number % EVERY == 0 and dist.get_rank() == 0:
            values = {"model": layer.state_dict(), "optimizer": optimizer.state_dict()}
            torch.save(values | {"step": number}, f"{snapshot}.part")
            os.replace(f"{snapshot}.part", snapshot)


steps: Callable[[], Iterator[int]] = ours if "WORKBENCH_GENERATION" in os.environ else theirs
with path.open("a", encoding="utf-8") as written:
    for number in steps():
        optimizer.zero_grad()
        model(inputs).square().mean().backward()
        optimizer.step()
        if dist.get_rank() == 0:
            print(time.time(), dist.get_world_size(), number, file=written, flush=True)
