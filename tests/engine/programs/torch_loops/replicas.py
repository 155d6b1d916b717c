"""Train replicas by the loop that LOOP names, and print the losses and the weights of the end."""

from __future__ import annotations

import contextlib
import json
import os
from typing import Any

import torch
import torch.distributed as dist
from torch.nn.functional import binary_cross_entropy_with_logits as judged
from torch.nn.functional import mse_loss
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

PARTS = 3
dist.init_process_group("gloo")
torch.manual_seed(7)
x = torch.randn(96, 4)
data = TensorDataset(x, x.sum(1, keepdim=True))
sampler: DistributedSampler[object] = DistributedSampler(data)
batches = DataLoader(data, batch_size=4, sampler=sampler)
model = DistributedDataParallel(torch.nn.Linear(4, 1))
curves: dict[str, list[float]] = {"loss": []}


def accumulated() -> None:
    """Three batches a step; only the last one exchanges."""
    optimizer, running = torch.optim.SGD(model.parameters(), lr=0.05), 0.0
    for number, (inputs, wanted) in enumerate(batches, 1):
        with contextlib.nullcontext() if number % PARTS == 0 else model.no_sync():
            loss = mse_loss(model(inputs), wanted) / PARTS
            loss.backward()
        running += loss.item()
        if number % PARTS == 0:
            optimizer.step()
            optimizer.zero_grad()
            curves["loss"].append(running)
            running = 0.0


def scaled() -> None:
    """A scaled loss, whose gradient overflows in the second step, on the last rank alone."""
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    scaler, scales = torch.amp.GradScaler("cpu", init_scale=1024.0), []
    for number, (inputs, wanted) in enumerate(batches, 1):
        optimizer.zero_grad()
        outputs = model(inputs)
        if number == 2 and dist.get_rank() == dist.get_world_size() - 1:
            outputs.register_hook(lambda gradient: gradient * float("inf"))
        loss = mse_loss(outputs, wanted)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        curves["loss"].append(loss.item())
        scales.append(scaler.get_scale())
    assert scales == [1024.0] + [512.0] * (len(scales) - 1), scales


def closure() -> None:
    """L-BFGS, whose step evaluates the loss as often on each rank."""
    optimizer = torch.optim.LBFGS(model.parameters(), lr=0.1, max_iter=4)
    for inputs, wanted in batches:
        seen: list[float] = []

        def evaluate(inputs: Any = inputs, wanted: Any = wanted, seen: Any = seen) -> float:
            optimizer.zero_grad()
            loss = mse_loss(model(inputs), wanted)
            loss.backward()
            seen.append(loss.item())
            mean = loss.detach().clone()  # by a loss of their own, ranks would search apart
            dist.all_reduce(mean)
            return float(mean.item() / dist.get_world_size())

        optimizer.step(evaluate)
        curves["loss"].append(seen[0])


def adversarial() -> None:
    """A generator against a discriminator, each with an optimizer."""
    maker = DistributedDataParallel(torch.nn.Linear(2, 4))
    optimizer_d = torch.optim.Adam(model.parameters(), lr=0.02)
    optimizer_g = torch.optim.Adam(maker.parameters(), lr=0.01)
    curves["optimizer_g/loss"] = []
    for inputs, _ in batches:
        made = maker(torch.randn(len(inputs), 2))
        optimizer_d.zero_grad()
        answers = model(torch.cat([inputs, made.detach()]))
        loss = judged(answers, (torch.arange(len(answers)) < len(inputs)).float()[:, None])
        loss.backward()
        optimizer_d.step()
        optimizer_g.zero_grad()
        fooled = judged(model.module(made), torch.ones(len(inputs), 1))
        fooled.backward()
        optimizer_g.step()
        curves["loss"].append(loss.item())
        curves["optimizer_g/loss"].append(fooled.item())


try:
    globals()[os.environ["LOOP"]]()
    weights = torch.cat([one.detach().reshape(-1) for one in model.parameters()])
    print(json.dumps({"curves": curves, "weights": weights.tolist()}), flush=True)
finally:
    dist.destroy_process_group()
