"""Have rank 1 raise where FAILS says, in the fourth step, while others wait for its gradients."""

from __future__ import annotations

import os
import time
from typing import Any

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, Dataset

WHERE = os.environ.get("FAILS", "backward")
FOURTH = 3


class Examples(Dataset[torch.Tensor]):
    """Examples; one cannot be loaded on rank 1."""

    def __len__(self) -> int:
        return 64

    def __getitem__(self, index: int) -> torch.Tensor:
        if WHERE == "worker" and index == 8 * FOURTH and dist_rank == 1:
            fail()
        return torch.full((4,), float(index))


class Failing(torch.autograd.Function):
    """The identity, whose backward pass raises."""

    @staticmethod
    def forward(ctx: Any, values: Any) -> Any:
        return values.view_as(values)

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        fail()


def fail() -> None:
    print("at", time.time(), flush=True)
    raise RuntimeError(f"this {WHERE} is broken")


dist.init_process_group("gloo")
dist_rank = dist.get_rank()
model = DistributedDataParallel(torch.nn.Linear(4, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=1e-4)
batches = DataLoader(Examples(), batch_size=8, num_workers=WHERE == "worker")
for step, inputs in enumerate(batches):
    is_due = step == FOURTH and dist_rank == 1
    outputs = model(inputs)
    if WHERE == "backward" and is_due:
        outputs = Failing.apply(outputs)
    loss = outputs.square().mean()
    optimizer.zero_grad()
    loss.backward()
    if WHERE == "all_reduce":
        if is_due:
            fail()
        dist.all_reduce(loss.detach())
    optimizer.step()
