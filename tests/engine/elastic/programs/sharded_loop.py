"""A network that is divided among the ranks by gloo: FSDP2, HSDP or tensor parallelism."""

from __future__ import annotations

from typing import Any

import torch
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor.parallel import (
    ColwiseParallel,
    RowwiseParallel,
    parallelize_module,
)

import workbench
from tests.engine.elastic.programs.torch_loop import loader


def divide(model: Any, how: str, size: int) -> None:
    """Divide a network among the ranks, unevenly where the number of ranks asks for it."""
    if how == "tensor":
        mesh = init_device_mesh("cpu", (size,))
        parallelize_module(model, mesh, {"0": ColwiseParallel(), "2": RowwiseParallel()})
        return
    is_replicated = how == "hsdp" and size % 2 == 0
    mesh = init_device_mesh(
        "cpu",
        (2, size // 2) if is_replicated else (size,),
        mesh_dim_names=("replicate", "shard") if is_replicated else None,
    )
    fully_shard(model[0], mesh=mesh)
    fully_shard(model, mesh=mesh)


def train(here: Any, number: int, steps: int | None) -> None:
    options = here.options
    torch.manual_seed(10)
    torch.distributed.init_process_group(
        "gloo", f"file://{here.folder}/store-{number}", rank=here.rank, world_size=here.size
    )
    try:
        width = 4 * options.units
        model = torch.nn.Sequential(
            torch.nn.Linear(2, width), torch.nn.Tanh(), torch.nn.Linear(width, 1)
        ).double()
        if options.shard:
            divide(model, options.shard, here.size)
        optimizer = torch.optim.AdamW(model.parameters(), lr=0.05)
        scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 5, 0.5)
        state = {"model": model, "optimizer": optimizer, "scheduler": scheduler, "best": 9.0}
        data = loader(here, number)
        for step in workbench.elastic(state, steps=steps, epochs=options.epochs, data=data):
            x, y, numbers = step.batch
            optimizer.zero_grad()
            loss = (model(x) - y).square().mean()
            (loss * step.weight).backward()
            optimizer.step()
            scheduler.step()
            state["best"] = min(state["best"], loss.item())
            here.noted(number, step, loss.item(), numbers.tolist())
        whole = (getattr(one, "full_tensor", lambda one=one: one)() for one in model.parameters())
        here.ended(*(one.detach().numpy() for one in whole), scheduler.last_epoch)
    finally:
        torch.distributed.destroy_process_group()
