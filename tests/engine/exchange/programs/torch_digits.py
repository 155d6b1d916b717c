"""Train DistributedDataParallel on handwritten digits: ``… SEEDS CODECS``, with blanks between.

The codec ``gloo`` is a run without an option of our exchange. Each rank finds the accuracies by
codec; all have the same weights in the end.
"""

from __future__ import annotations

import os
import random
from typing import Any

import torch
import torch.distributed as dist
from sklearn.datasets import load_digits
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

from tests.engine.programs.world import (
    arguments,
    folder,
    found,
    rank,
    size,
    worlds,
    write_found,
)
from workbench.core.options.table import variables
from workbench.engine.reporting.run_log import RunLog
from workbench.engine.run_context import RunContext, set_current
from workbench.frameworks.torch.framework import TorchFramework

seeds, codecs = arguments[0].split(), arguments[1].split()
world = worlds.offer(0)
torch.set_num_threads(1)
TorchFramework().install()
os.environ |= {
    "RANK": str(rank),
    "WORLD_SIZE": str(size),
    "MASTER_ADDR": "127.0.0.1",
    "MASTER_PORT": str(world.bcast(random.SystemRandom().randrange(12_000, 32_000))),
}
dist.init_process_group("gloo")
images, labels = load_digits(return_X_y=True)
inputs = torch.tensor(images / 16, dtype=torch.float32).reshape(-1, 1, 8, 8)
wanted = torch.tensor(labels)
order = torch.randperm(len(wanted), generator=torch.Generator().manual_seed(0))
trained, tested = order[:1000], order[1000:]
BATCH = 64  # of all ranks


def network() -> Any:
    return torch.nn.Sequential(
        torch.nn.Conv2d(1, 8, 3, padding=1),
        torch.nn.ReLU(),
        torch.nn.Conv2d(8, 16, 3, padding=1),
        torch.nn.ReLU(),
        torch.nn.MaxPool2d(2),
        torch.nn.Flatten(),
        torch.nn.Linear(256, 128),
        torch.nn.ReLU(),
        torch.nn.Linear(128, 10),
    )


def accuracy(seed: int) -> float:
    """Return the accuracy of a training in percent."""
    torch.manual_seed(seed)
    model = DistributedDataParallel(network(), bucket_cap_mb=0.05)  # two buckets
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    schedule = torch.optim.lr_scheduler.MultiStepLR(optimizer, [9, 12], 0.2)
    data = TensorDataset(inputs[trained], wanted[trained])
    sampler: Any = DistributedSampler(data, seed=seed)
    loader: Any = DataLoader(data, BATCH // size, sampler=sampler)
    for epoch in range(15):
        sampler.set_epoch(epoch)
        for some, theirs in loader:
            optimizer.zero_grad()
            torch.nn.functional.cross_entropy(model(some), theirs).backward()
            optimizer.step()
        schedule.step()
    weights = torch.cat([p.detach().reshape(-1) for p in model.parameters()]).numpy().tobytes()
    assert len({*world.allgather(weights)}) == 1, "the ranks trained apart"
    with torch.no_grad():
        guessed = model.module(inputs[tested]).argmax(1)
    return 100 * float((guessed == wanted[tested]).float().mean())


for codec in codecs:
    given = {} if codec == "gloo" else dict(variables({"communicator": "auto", "compress": codec}))
    os.environ |= given
    found[codec] = []
    for seed in seeds:
        log = RunLog("260101-000000-0001", rank, folder / f"{codec}-{seed}-{rank}.log")
        set_current(RunContext(log))
        found[codec].append(accuracy(int(seed)))
        set_current(None)
    for name in given:
        del os.environ[name]
dist.destroy_process_group()
write_found()
