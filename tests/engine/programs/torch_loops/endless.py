"""Train on a source of batches that never ends; say how many epochs that were."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator
from typing import Any

import torch
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(5)
BATCHES, STEPS = 4, 10
data = TensorDataset(torch.randn(8 * BATCHES, 3))


class Repeated:
    """A sampler that begins again, and has the length of one pass, as those of object detectors."""

    def __init__(self, sampler: Any) -> None:
        self.sampler = sampler

    def __iter__(self) -> Iterator[Any]:
        while True:
            yield from self.sampler

    def __len__(self) -> int:
        return len(self.sampler)


def kept() -> Iterator[Any]:
    """Give the batches of the first pass forever, without asking the loader again."""
    return itertools.cycle(DataLoader(data, 8))


def passes() -> Iterator[Any]:
    """Give one pass after another."""
    loader = DataLoader(data, 8, shuffle=True)
    while True:
        yield from loader


def asked() -> Iterator[Any]:
    """Ask for the next batch, and begin again where there is none."""
    loader = DataLoader(data, 8, shuffle=True)
    batches = iter(loader)
    while True:
        try:
            batch = next(batches)
        except StopIteration:
            batches = iter(loader)
            batch = next(batches)
        yield batch


def sampled() -> Iterator[Any]:
    """Let the sampler begin again by itself."""
    return iter(DataLoader(data, batch_sampler=Repeated(DataLoader(data, 8).batch_sampler)))


def first() -> Iterator[Any]:
    """Give the first batch forever."""
    return itertools.repeat(next(iter(DataLoader(data, 8))))


source = kept
model = torch.nn.Linear(3, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _, (x,) in zip(range(STEPS), source(), strict=False):
    optimizer.zero_grad()
    model(x).pow(2).mean().backward()
    optimizer.step()
print(json.dumps({"epoch": STEPS / BATCHES}))
