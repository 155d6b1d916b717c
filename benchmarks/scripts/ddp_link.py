"""Train a residual network by DistributedDataParallel in several ways, in turn.

Arguments: depth (18 or 50), rounds, ways, and the address and port of rank 0 for gloo. Rank 0
writes the seconds of each step, those of the processor, and the last loss of each way.
"""

from __future__ import annotations

import itertools
import json
import sys
import time
from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist
from mpi4py import MPI
from torch.distributed.algorithms.ddp_comm_hooks import default_hooks, powerSGD_hook
from torch.nn.parallel import DistributedDataParallel

from workbench.core.performance.exchange_model import Codec
from workbench.engine.exchange.bucket_exchange import MATRIX_RANK, ExchangeOptions
from workbench.frameworks.torch.replicas import Replicas

FOUND = "found: "
WORLD = MPI.COMM_WORLD
BATCH, PIXELS, CLASSES = 8, 64, 1_000
# The first passes divide the buckets, make plans, and train before either PowerSGD starts.
WARM_STEPS = 4
# PyTorch's PowerSGD lets as many first steps pass uncompressed, at least; and ours so here.
EXACT_STEPS = 2
# Its reductions follow each other in gloo's threads, on each rank in an order of its own: with two
# buckets under way they mismatch within a few steps. One bucket holds all.
ONE_BUCKET_MB = 1_000
BLOCKS = {18: (2, 2, 2, 2), 50: (3, 4, 6, 3)}


class Residual(torch.nn.Module):
    """A block of He et al. (2015): two layers, or three with a bottleneck."""

    def __init__(self, inside: int, width: int, stride: int, *, narrow: bool) -> None:
        super().__init__()
        outside = 4 * width if narrow else width
        shapes = [(inside, width, 3, stride), (width, outside, 3, 1)]
        if narrow:
            shapes = [(inside, width, 1, 1), (width, width, 3, stride), (width, outside, 1, 1)]
        layers: list[Any] = []
        for given, made, size, step in shapes:
            layers += [convolution(given, made, size, step), torch.nn.ReLU()]
        self.layers = torch.nn.Sequential(*layers[:-1])
        fits = inside == outside and stride == 1
        self.beside = torch.nn.Identity() if fits else convolution(inside, outside, 1, stride)

    def forward(self, x: Any) -> Any:
        return torch.relu(self.layers(x) + self.beside(x))


def convolution(inside: int, outside: int, size: int, stride: int) -> Any:
    """Return a convolution without bias, and its batch normalization."""
    return torch.nn.Sequential(
        torch.nn.Conv2d(inside, outside, size, stride, size // 2, bias=False),
        torch.nn.BatchNorm2d(outside),
    )


def network(depth: int) -> Any:
    """Return a residual network for a thousand classes: 11.7 M numbers, or 25.6 M."""
    torch.manual_seed(0)
    narrow, inside = depth == 50, 64
    layers = [convolution(3, 64, 7, 2), torch.nn.ReLU(), torch.nn.MaxPool2d(3, 2, 1)]
    for place, count in enumerate(BLOCKS[depth]):
        for number in range(count):
            stride = 2 if place and not number else 1
            layers.append(Residual(inside, 64 << place, stride, narrow=narrow))
            inside = (64 << place) * (4 if narrow else 1)
    head = [torch.nn.AdaptiveAvgPool2d(1), torch.nn.Flatten(), torch.nn.Linear(inside, CLASSES)]
    return torch.nn.Sequential(*layers, *head)


def ours(codec: Codec) -> Callable[[Any], Callable[[], None]]:
    """Return what registers our hook with a model; the hook is made by its first pass."""

    def register(model: Any) -> Callable[[], None]:
        replicas = Replicas(torch, ExchangeOptions(None, codec, False, "--communicator"))
        replicas.made(model)
        return replicas.before_backward

    return register


def theirs(hook: Any = None, state: Callable[[], Any] = lambda: None) -> Callable[[Any], Any]:
    """Return what registers a hook of PyTorch's with a model; none for gloo alone."""

    def register(model: Any) -> Callable[[], None]:
        if hook is not None:
            model.register_comm_hook(state(), hook)
        return lambda: None

    return register


def low_rank() -> Any:
    """Return the state of PyTorch's PowerSGD, of the same rank as ours."""
    return powerSGD_hook.PowerSGDState(None, MATRIX_RANK, start_powerSGD_iter=EXACT_STEPS)


WAYS: dict[str, Callable[[Any], Callable[[], None]]] = {
    "ours": ours(Codec.NONE),
    "ours, fp16": ours(Codec.FP16),
    "ours, int8": ours(Codec.INT8),
    "ours, powersgd": ours(Codec.POWERSGD),
    "gloo": theirs(),
    "gloo, fp16_compress_hook": theirs(default_hooks.fp16_compress_hook),
    "gloo, powerSGD_hook": theirs(powerSGD_hook.powerSGD_hook, low_rank),
}


def stepping(depth: int, way: str) -> Callable[[], float]:
    """Return a function that trains a step, and returns its loss."""
    buckets = ONE_BUCKET_MB if way == "gloo, powerSGD_hook" else None
    model = DistributedDataParallel(
        network(depth), gradient_as_bucket_view=True, bucket_cap_mb=buckets
    )
    before_backward = WAYS[way](model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    draw = torch.Generator().manual_seed(WORLD.rank)
    images = torch.randn(BATCH, 3, PIXELS, PIXELS, generator=draw)
    labels = torch.randint(0, CLASSES, (BATCH,), generator=draw)
    exact = itertools.repeat(None, EXACT_STEPS if way == "ours, powersgd" else 0)

    def step() -> float:
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(model(images), labels)
        if next(exact, True):
            before_backward()
        loss.backward()
        optimizer.step()
        return float(loss.detach())

    return step


def main() -> None:
    depth, rounds, ways = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3].split("; ")
    torch.set_num_threads(1)
    dist.init_process_group(
        "gloo", init_method=f"tcp://{sys.argv[4]}", rank=WORLD.rank, world_size=WORLD.size
    )
    steps = {way: stepping(depth, way) for way in ways}
    took: dict[str, list[float]] = {way: [] for way in ways}
    used: dict[str, list[float]] = {way: [] for way in ways}
    losses: dict[str, float] = {}
    for number in range(WARM_STEPS + rounds):
        for way, step in steps.items():
            WORLD.Barrier()
            start, busy = time.perf_counter(), time.process_time()
            losses[way] = step()
            seconds, busy = time.perf_counter() - start, time.process_time() - busy
            seconds = WORLD.allreduce(seconds, MPI.MAX)
            if number >= WARM_STEPS:
                took[way].append(seconds)
                used[way].append(busy)
    if WORLD.rank == 0:
        values = {"rank": 0, "steps": took, "processor": used, "losses": losses}
        print(FOUND + json.dumps(values), flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
