"""Make the calls of ``horovod.torch`` that scripts use, and print a value for each.

    mpiexec -n 2 python tests/published/horovod_values.py       # Horovod, if installed
    mpiexec -n 2 python tests/published/horovod_values.py ours  # workbench in its place

Rank 0 prints a line a call: its name, and the values of all ranks as JSON.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from typing import Any

import torch

if "ours" in sys.argv[1:]:
    from workbench.frameworks.horovod.framework import offer_horovod

    offer_horovod()
import horovod.torch as hvd

torch.set_num_threads(1)
hvd.init()
rank, size = hvd.rank(), hvd.size()
mine = torch.arange(4.0) / 3 + rank
CALLS: dict[str, Callable[[], Any]] = {}


def call(function: Callable[[], Any]) -> Callable[[], Any]:
    CALLS[function.__name__] = function
    return function


for _name, _function in {
    "place": lambda: [rank, size, hvd.local_rank(), hvd.local_size(), hvd.cross_size()],
    "built": lambda: [hvd.mpi_built(), hvd.nccl_built(), hvd.is_initialized()],
    "mean": lambda: hvd.allreduce(mine, name="a"),
    "sum": lambda: hvd.allreduce(mine, op=hvd.Sum, name="b"),
    "old sum": lambda: hvd.allreduce(mine, average=False, name="c"),
    "largest": lambda: hvd.allreduce(mine, op=hvd.Max, name="d"),
    "smallest": lambda: hvd.allreduce(mine, op=hvd.Min, name="e"),
    "product": lambda: hvd.allreduce(mine, op=hvd.Product, name="f"),
    "half": lambda: hvd.allreduce(mine, compression=hvd.Compression.fp16, name="g"),
    "bfloat16": lambda: hvd.allreduce(mine.bfloat16(), name="h"),
    "double": lambda: hvd.allreduce(mine.double(), name="i"),
    "integers": lambda: hvd.allreduce(torch.tensor([7 * rank, 3]), op=hvd.Sum, name="j"),
    "scalar": lambda: hvd.allreduce(torch.tensor(float(rank)), name="k"),
    "scaled": lambda: hvd.allreduce(
        mine, op=hvd.Sum, prescale_factor=0.5, postscale_factor=3.0, name="l"
    ),
    "in place": lambda: hvd.allreduce_(mine.clone(), name="m"),
    "later": lambda: hvd.synchronize(hvd.allreduce_async_(mine.clone(), name="n")),
    "grouped": lambda: torch.cat(hvd.grouped_allreduce([mine, 2 * mine], name="o")),
    "gathered": lambda: hvd.allgather(torch.full((rank + 1, 2), float(rank)), name="p"),
    "sent": lambda: hvd.broadcast(mine, size - 1, name="q"),
    "sent in place": lambda: hvd.broadcast_(mine.clone(), 0, name="r"),
    "object": lambda: hvd.broadcast_object({"rank": rank}, size - 1),
    "objects": lambda: hvd.allgather_object({"rank": rank}),
    "exchanged": lambda: hvd.alltoall(torch.arange(2.0 * size) + 10 * rank, name="s"),
}.items():
    CALLS[_name] = _function


@call
def gradient_of_a_mean() -> Any:
    leaf = torch.ones(2, requires_grad=True)
    (hvd.allreduce(leaf, name="t") * (rank + 1)).sum().backward()
    return leaf.grad


@call
def gradient_of_a_sum() -> Any:
    leaf = torch.ones(2, requires_grad=True)
    (hvd.allreduce(leaf, op=hvd.Sum, name="u") * (rank + 1)).sum().backward()
    return leaf.grad


@call
def joined() -> Any:
    """Ranks with fewer batches join, and take part with zeros."""
    seen = [hvd.allreduce(torch.ones(2), name=f"v{n}").tolist() for n in range(1 + rank)]
    return [seen, hvd.join()]


def trained(passes: int = 1, clips: bool = False, **options: Any) -> Any:
    """Train as Horovod's examples do; return losses and weights."""
    torch.manual_seed(rank)
    model = torch.nn.Sequential(torch.nn.Linear(6, 20), torch.nn.Tanh(), torch.nn.Linear(20, 3))
    optimizer: Any = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    optimizer = hvd.DistributedOptimizer(
        optimizer,
        named_parameters=model.named_parameters(),
        backward_passes_per_step=passes,
        **options,
    )
    hvd.broadcast_parameters(model.state_dict(), root_rank=0)
    hvd.broadcast_optimizer_state(optimizer, root_rank=0)
    losses = []
    for step in range(5):
        optimizer.zero_grad()
        for part in range(passes):
            draw = torch.Generator().manual_seed(100 * rank + passes * step + part)
            inputs = torch.randn(8, 6, generator=draw)
            wanted = torch.randn(8, 3, generator=draw)
            loss = torch.nn.functional.mse_loss(model(inputs), wanted)
            loss.backward()
            losses.append(loss.item())
        if clips:
            optimizer.synchronize()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 0.1)
            with optimizer.skip_synchronize():
                optimizer.step()
        else:
            optimizer.step()
    flat = torch.cat([p.detach().reshape(-1) for p in model.parameters()])
    return [*losses, *flat.tolist()]


for _name, _options in {
    "trained": {},
    "trained, accumulated": {"passes": 2},
    "trained, clipped": {"clips": True},
    "trained, summed": {"op": hvd.Sum},
    "trained, half": {"compression": hvd.Compression.fp16},
    "trained, predivided": {"gradient_predivide_factor": 2.0},
}.items():
    CALLS[_name] = lambda options=_options: trained(**options)


def plain(value: Any) -> Any:
    return value.double().tolist() if isinstance(value, torch.Tensor) else value


for name, function in CALLS.items():
    try:
        result = plain(function())
    except Exception as error:  # noqa: BLE001  # what is refused is compared too
        result = f"{type(error).__name__}: {error}"[:100]
    everybody = hvd.allgather_object(result)
    if rank == 0:
        print(json.dumps([name, everybody]), flush=True)
hvd.shutdown()
