"""Train replicas of DistributedDataParallel with our exchange, and by gloo for comparison.

With the argument ``nodes`` each rank is on a simulated node of its own, so that buckets leave
during the backward pass. ``right`` has whether each statement holds, ``far`` how far apart weights
are, relative to how far training moved them, and ``said`` what was printed.
"""

from __future__ import annotations

import contextlib
import gc
import io
import itertools
import os
import random
from collections.abc import Iterator
from typing import Any

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

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
from workbench.core.world.world import NODE_VARIABLE
from workbench.engine.reporting.run_log import RunLog
from workbench.engine.run_context import RunContext, set_current
from workbench.errors import WorkbenchError
from workbench.frameworks.torch.framework import TorchFramework

world = worlds.offer(0)
between_nodes = "nodes" in arguments
if between_nodes:
    os.environ[NODE_VARIABLE] = f"node{rank}"
torch.set_num_threads(1)
TorchFramework().install()
port = world.bcast(random.SystemRandom().randrange(12_000, 32_000))
os.environ |= {
    "RANK": str(rank),
    "WORLD_SIZE": str(size),
    "MASTER_ADDR": "127.0.0.1",
    "MASTER_PORT": str(port),
}
dist.init_process_group("gloo")
numbers = itertools.count(1)


@contextlib.contextmanager
def run_with(*options: Any, **more: Any) -> Iterator[RunContext]:
    """Be in a run with these options of the exchange."""
    number = next(numbers)
    given = dict(
        variables({**dict(zip(("communicator", "compress"), options, strict=False)), **more})
    )
    os.environ |= given
    run = RunContext(RunLog(f"260101-000000-{number:04}", rank, folder / f"{number}-{rank}.log"))
    set_current(run)
    try:
        yield run
    finally:
        run.close()
        set_current(None)
        for name in given:
            del os.environ[name]


def network() -> Any:
    torch.manual_seed(5)
    return torch.nn.Sequential(
        torch.nn.Conv2d(1, 8, 3, padding=1),
        torch.nn.ReLU(),
        torch.nn.Flatten(),
        torch.nn.Linear(8 * 64, 200),
        torch.nn.ReLU(),
        torch.nn.Linear(200, 10),
    )


def images(step: int) -> tuple[Any, Any]:
    draw = torch.Generator().manual_seed(1000 * rank + step)
    return torch.rand(16, 1, 8, 8, generator=draw), torch.randint(0, 10, (16,), generator=draw)


def train(model: Any, steps: int = 8, passes: int = 1, kind: Any = torch.float32) -> Any:
    """Return the flat weights after some steps."""
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    for step in range(steps):
        optimizer.zero_grad()
        for part in range(passes):
            inputs, labels = images(passes * step + part)
            silent = part < passes - 1 and hasattr(model, "no_sync")
            with model.no_sync() if silent else contextlib.nullcontext():
                loss = torch.nn.functional.cross_entropy(model(inputs.to(kind)).float(), labels)
                (loss / passes).backward()
        optimizer.step()
    return flat(model)


def flat(model: Any) -> Any:
    return torch.cat([p.detach().double().reshape(-1) for p in model.parameters()])


def replica(kind: Any = torch.float32, **options: Any) -> Any:
    # Several buckets, which are divided again after the first pass.
    return DistributedDataParallel(network().to(kind), bucket_cap_mb=0.2, **options)


def two(way: str) -> Any:
    """Return the flat weights of two replicas that train together."""
    first, second = replica(), replica()
    models = [first, second]
    if way == "same":  # wrapped a second time
        models = [first, DistributedDataParallel(first.module, bucket_cap_mb=0.2)]
    optimizers = [torch.optim.SGD(one.parameters(), lr=0.05) for one in models]
    for step in range(6):
        inputs, labels = images(step)
        if way == "one pass":
            loss = torch.nn.functional.cross_entropy(first(inputs) + second(inputs), labels)
            for optimizer in optimizers:
                optimizer.zero_grad()
            loss.backward()
            for optimizer in optimizers:
                optimizer.step()
            continue
        for number, (model, optimizer) in enumerate(zip(models, optimizers, strict=True)):
            optimizer.zero_grad()
            torch.nn.functional.cross_entropy(model(inputs) * (1 + number), labels).backward()
            optimizer.step()
    return torch.cat([flat(one) for one in models])


def apart(one: Any, two: Any, kind: Any = torch.float32) -> float:
    start = flat(network().to(kind))
    return float((one - two).norm() / (two - start).norm())


def alike(weights: Any) -> bool:
    return len({*world.allgather(weights.numpy().tobytes())}) == 1


def averaged() -> dict[str, float]:
    """Without compression weights are gloo's, in any kind of loop."""
    far = {}
    loops: dict[str, Any] = {
        "plain": lambda: train(replica()),
        "accumulated": lambda: train(replica(), passes=3),
        "unused": lambda: train(replica(find_unused_parameters=True)),
        "static": lambda: train(replica(static_graph=True)),
        "views": lambda: train(replica(gradient_as_bucket_view=True)),
        "group": lambda: train(replica(process_group=dist.new_group([*range(size)]))),
    }
    communicators = ("auto", "ring") if between_nodes else ("auto", "ring", "mpi")
    for name, loop in loops.items():
        theirs = loop()
        for communicator in communicators if name == "plain" else ("auto",):
            with run_with(communicator, None):
                ours = loop()
            far[f"{name} {communicator}"] = apart(ours, theirs)
            found["right"][f"{name} {communicator} alike"] = alike(ours)
    start = flat(network()).repeat(2)
    for way in ("in turn", "one pass", "same"):
        theirs = two(way)
        with run_with("auto", None):
            ours = two(way)
        far[f"two {way}"] = float((ours - theirs).norm() / (theirs - start).norm())
        found["right"][f"two {way} alike"] = alike(ours)
    for kind in (torch.float64, torch.bfloat16, torch.float16):
        theirs = train(replica(kind), kind=kind)
        with run_with("auto", None):
            ours = train(replica(kind), kind=kind)
        far[f"{kind}"] = apart(ours, theirs, kind)
        found["right"][f"{kind} alike"] = alike(ours)
    return far


def coded() -> dict[str, float]:
    """With each codec the ranks stay alike, and near gloo's weights."""
    far = {}
    theirs = train(replica(), steps=30)
    for codec in ("fp16", "bf16", "int8", "topk", "powersgd"):
        with run_with(None, codec):
            ours = train(replica(), steps=30)
        far[codec] = apart(ours, theirs)
        found["right"][f"{codec} alike"] = alike(ours)
    with run_with(None, "bf16"):
        narrow = train(replica(torch.bfloat16), kind=torch.bfloat16)
    found["right"]["bf16 model, coded"] = alike(narrow)
    return far


def delayed() -> float:
    """Double buffering applies the means of the step before."""
    model = network()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    means = [torch.zeros_like(p) for p in model.parameters()]
    for step in range(8):
        optimizer.zero_grad()
        inputs, labels = images(step)
        torch.nn.functional.cross_entropy(model(inputs), labels).backward()
        for p, mean in zip(model.parameters(), means, strict=True):
            new = torch.from_numpy(world.allreduce(p.grad.numpy())) / size
            p.grad.copy_(mean)
            mean.copy_(new)
        optimizer.step()
    with run_with(None, None, double_buffering=True):
        ours = train(replica())
    return apart(ours, flat(model))


def not_finite() -> dict[str, bool]:
    """An infinite gradient of one rank is seen by all, as a scaler of losses needs it."""
    right = {}
    for codec in ("none", "int8", "topk", "powersgd"):
        with run_with(None, codec):
            model = replica()
            inputs, labels = images(0)
            loss = torch.nn.functional.cross_entropy(model(inputs), labels)
            (loss * (float("inf") if rank == size - 1 else 1.0)).backward()
            some = [not bool(p.grad.isfinite().all()) for p in model.parameters()]
            right[f"{codec} seen"] = any(some)
            model.zero_grad()
            torch.nn.functional.cross_entropy(model(inputs), labels).backward()
            right[f"{codec} afterwards"] = all(
                bool(p.grad.isfinite().all()) for p in model.parameters()
            )
    return right


def own_hook(state, bucket):  # PyTorch takes no other annotations than its own
    future: Any = torch.futures.Future()
    future.set_result(bucket.buffer().zero_())
    return future


def exceptions() -> dict[str, bool]:
    """A hook of the program's own, sparse gradients, and wrappers without a hook."""
    right = {}
    with run_with("auto", None):
        model = replica()
        model.register_comm_hook(None, own_hook)
        right["own hook"] = bool(torch.equal(train(model), flat(network())))
        sparse = torch.nn.EmbeddingBag(10, 3, sparse=True)
        table = DistributedDataParallel(sparse)
        table(torch.tensor([[rank, 5]])).sum().backward()
        right["sparse"] = bool(sparse.weight.grad.coalesce().indices().numel() == size + 1)
        from torch.distributed.fsdp import FullyShardedDataParallel, fully_shard
        from torch.distributed.pipelining import PipelineStage

        for wrapper in (FullyShardedDataParallel, fully_shard, PipelineStage):
            try:
                wrapper(torch.nn.Linear(2, 2))
            except WorkbenchError as error:
                right[f"{wrapper.__name__}"] = "leave the option out" in str(error)
    return right


said = io.StringIO()
found["right"] = {}
with contextlib.redirect_stdout(said):
    found["far"] = averaged()
    found["coded"] = coded()
    found["delayed"] = delayed()
    found["right"] |= not_finite() | exceptions()
found["said"] = said.getvalue()
gc.collect()
dist.destroy_process_group()
write_found()
