"""A network that ``DistributedDataParallel`` trains by gloo, with a ``DataLoader``."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, Dataset, DistributedSampler, IterableDataset

import workbench


class Numbers(Dataset[tuple[Any, Any, int]]):
    """Examples that know their number; what is read is disturbed by random numbers."""

    def __init__(self, examples: int, noise: float) -> None:
        generator = torch.Generator().manual_seed(1)
        self.x = torch.rand(examples, 2, generator=generator, dtype=torch.float64)
        self.noise = noise

    def __len__(self) -> int:
        return len(self.x)

    def __getitem__(self, number: int) -> tuple[Any, Any, int]:
        x = self.x[number]
        return x + self.noise * torch.rand(2), x.sum(0, keepdim=True) ** 2, number


class Stream(IterableDataset[tuple[Any, Any, int]]):
    """The same in a random order, without a length; or a rank's part of it."""

    def __init__(self, data: Numbers, rank: int, ranks: int) -> None:
        self.data, self.rank, self.ranks = data, rank, ranks

    def __iter__(self) -> Iterator[tuple[Any, Any, int]]:
        for number in torch.randperm(len(self.data) // self.ranks).tolist():
            yield self.data[number * self.ranks + self.rank]


def loader(here: Any, seed: int) -> Any:
    options = here.options
    data = Numbers(options.examples, options.noise)
    if options.data == "global":
        chosen = workbench.GlobalBatches(len(data), options.batch, seed=seed)
        return DataLoader(data, batch_sampler=chosen, num_workers=options.workers)
    if options.data == "stream":
        part = (here.rank, here.size) if options.scatter else (0, 1)
        return DataLoader(Stream(data, *part), options.batch)
    sampler = None
    if options.data == "distributed":
        sampler = DistributedSampler(data, here.size, here.rank, seed=seed)
    return DataLoader(
        data, options.batch, shuffle=sampler is None, sampler=sampler, num_workers=options.workers
    )


def train(here: Any, number: int, steps: int | None) -> None:
    options = here.options
    torch.manual_seed(10 + here.rank * options.noise)
    torch.distributed.init_process_group(
        "gloo", f"file://{here.folder}/store-{number}", rank=here.rank, world_size=here.size
    )
    try:
        first, last = torch.nn.Linear(2, 8), torch.nn.Linear(8, 1)
        middle = [torch.nn.Tanh()]
        if here.exchanges:  # small gradients are not compressed
            first, last = torch.nn.Linear(2, 128), torch.nn.Linear(128, 1)
            wide = [torch.nn.Linear(128, 128) for _ in range(3)]
            middle = [torch.nn.Tanh(), *wide, torch.nn.Tanh()]
        model = torch.nn.Sequential(first, *middle, last)
        kind = torch.float32 if here.exchanges else torch.float64  # what is compressed
        replica = DistributedDataParallel(
            model if here.exchanges else model.double(),
            bucket_cap_mb=0.1,  # several buckets
        )
        optimizer = torch.optim.Adam(replica.parameters(), lr=0.05)
        scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 5, 0.5)
        scaler = torch.amp.GradScaler("cpu", init_scale=4.0, growth_interval=5)
        state = {"model": replica, "optimizer": optimizer, "scheduler": scheduler, "best": 9.0}
        state["scaler"] = scaler
        data = loader(here, number)
        for step in workbench.elastic(state, steps=steps, epochs=options.epochs, data=data):
            x, y, numbers = step.batch
            x, y = x.to(kind), y.to(kind)
            optimizer.zero_grad()
            loss = (replica(x) - y).square().mean()
            scaler.scale(loss * step.weight).backward()
            scaler.step(optimizer)
            scaler.update()
            scheduler.step()
            state["best"] = min(state["best"], loss.item())
            here.noted(number, step, loss.item(), numbers.tolist())
        weights = (one.detach().numpy() for one in model.parameters())
        here.ended(*weights, scheduler.last_epoch, scaler.get_scale())
    finally:
        torch.distributed.destroy_process_group()
