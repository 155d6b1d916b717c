"""Make Horovod's calls on the ranks, and train by its optimizer as its scripts do.

``right`` has whether each statement holds, and ``errors`` what is refused.
"""

from __future__ import annotations

import itertools
import os
from typing import Any

import torch

from tests.engine.programs.world import folder, found, rank, size, worlds, write_found
from workbench.core.run.run_options import COMPRESS_VARIABLE
from workbench.engine.reporting.run_log import RunLog
from workbench.engine.run_context import RunContext, set_current
from workbench.errors import WorkbenchError
from workbench.frameworks.horovod.framework import offer_horovod

world = worlds.offer(0)
torch.set_num_threads(1)
offer_horovod()
import horovod.torch as hvd  # noqa: E402  # only now is it to be found
from horovod.torch.mpi_ops import allreduce as allreduce_of_mpi_ops  # noqa: E402  # likewise

numbers = itertools.count(1)
ranks = range(size)
right: dict[str, bool] = {}


def begin() -> None:
    number = next(numbers)
    log = RunLog(f"260101-000000-h{number:03}", rank, folder / f"h{number}-{rank}.log")
    set_current(RunContext(log))
    hvd.init()


def same(one: Any, two: Any) -> bool:
    return bool(torch.equal(torch.as_tensor(one), torch.as_tensor(two)))


def ranks_and_values() -> None:
    mine = torch.arange(4.0) + rank
    mean, total = torch.arange(4.0) + (size - 1) / 2, torch.arange(4.0) * size + sum(ranks)
    right["place"] = (hvd.rank(), hvd.size()) == (rank, size) and hvd.is_initialized()
    right["node"] = (hvd.local_rank(), hvd.local_size()) == (rank, size)
    right["nodes"] = (hvd.cross_rank(), hvd.cross_size(), hvd.is_homogeneous()) == (0, 1, True)
    right["built"] = hvd.mpi_built() and not hvd.nccl_built() and not hvd.gloo_enabled()
    right["mean"] = same(hvd.allreduce(mine), mean) and same(allreduce_of_mpi_ops(mine), mean)
    right["sum"] = same(hvd.allreduce(mine, average=False, name="a"), total)
    right["sum by op"] = same(hvd.allreduce(mine, op=hvd.Sum), total)
    right["largest"] = same(hvd.allreduce(mine, op=hvd.Max), torch.arange(4.0) + size - 1)
    right["half"] = same(hvd.allreduce(mine, compression=hvd.Compression.fp16), mean)
    narrow = mine.bfloat16()
    right["bfloat16"] = same(hvd.allreduce(narrow), mean.bfloat16())
    right["integers"] = same(hvd.allreduce(torch.tensor([rank]), op=hvd.Sum), [sum(ranks)])
    right["scalar"] = same(hvd.allreduce(torch.tensor(float(rank))), torch.tensor((size - 1) / 2))
    right["scaled"] = same(hvd.allreduce(mine, op=hvd.Sum, prescale_factor=0.5), total / 2)
    placed = mine.clone()
    right["in place"] = hvd.allreduce_(placed) is placed and same(placed, mean)
    right["later"] = same(hvd.synchronize(hvd.allreduce_async_(mine.clone())), mean)
    one, two = hvd.grouped_allreduce([mine, 2 * mine])
    right["grouped"] = same(one, mean) and same(two, 2 * mean)
    uneven = torch.full((rank + 1, 2), float(rank))
    wanted = torch.cat([torch.full((n + 1, 2), float(n)) for n in ranks])
    right["gathered"] = same(hvd.allgather(uneven), wanted)
    right["gathered scalars"] = same(hvd.allgather(torch.tensor(rank)), [*ranks])
    last = size - 1
    right["sent"] = same(hvd.broadcast(mine, last), torch.arange(4.0) + last)
    right["sent narrow"] = same(hvd.broadcast_(narrow, 0), torch.arange(4.0).bfloat16())
    right["objects"] = hvd.broadcast_object({"rank": rank}, last) == {"rank": last}
    right["all objects"] = hvd.allgather_object(rank) == [*ranks]
    right["exchanged"] = same(hvd.alltoall(torch.arange(size) + 10 * rank), [
        10 * n + rank for n in ranks
    ])  # fmt: skip
    leaf = torch.ones(2, requires_grad=True)
    (hvd.allreduce(leaf) * (rank + 1)).sum().backward()
    right["goes back"] = same(leaf.grad, torch.full((2,), (size + 1) / 2))
    hvd.barrier()


def network() -> Any:
    torch.manual_seed(3)
    return torch.nn.Sequential(torch.nn.Linear(6, 100), torch.nn.Tanh(), torch.nn.Linear(100, 3))


def batch(step: int, of: int) -> tuple[Any, Any]:
    draw = torch.Generator().manual_seed(100 * of + step)
    return torch.randn(8, 6, generator=draw), torch.randn(8, 3, generator=draw)


def loss_of(model: Any, step: int, of: int) -> Any:
    inputs, wanted = batch(step, of)
    return torch.nn.functional.mse_loss(model(inputs), wanted)


def trained(steps: int = 6, passes: int = 1, clips: bool = False, **options: Any) -> Any:
    """Train as Horovod's examples do; return the weights."""
    torch.manual_seed(rank)
    model = network()
    with torch.no_grad():
        for p in model.parameters():
            p.add_(rank)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    ended: list[Any] = []
    optimizer.register_step_post_hook(lambda *_: ended.append(1))
    named = model.named_parameters()
    optimizer = hvd.DistributedOptimizer(
        optimizer, named_parameters=named, backward_passes_per_step=passes, **options
    )
    hvd.broadcast_parameters(model.state_dict(), root_rank=0)
    hvd.broadcast_optimizer_state(optimizer, root_rank=0)
    schedule = torch.optim.lr_scheduler.StepLR(optimizer, 3)
    for step in range(steps):
        optimizer.zero_grad()
        for part in range(passes):
            loss_of(model, step * passes + part, rank).backward()
        if clips:
            optimizer.synchronize()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 0.1)
            with optimizer.skip_synchronize():
                optimizer.step()
        else:
            optimizer.step()
        schedule.step()
    right[f"steps, {passes}, {clips}, {[*options]}"] = len(ended) == steps
    return flat(model)


def alone(steps: int = 6, passes: int = 1, clips: bool = False, sums: bool = False) -> Any:
    """Train on the batches of all ranks here, for comparison."""
    model = network()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    schedule = torch.optim.lr_scheduler.StepLR(optimizer, 3)
    for step in range(steps):
        optimizer.zero_grad()
        for part, of in itertools.product(range(passes), ranks):
            (loss_of(model, step * passes + part, of) / (1 if sums else size)).backward()
        if clips:
            torch.nn.utils.clip_grad_norm_(model.parameters(), 0.1)
        optimizer.step()
        schedule.step()
    return flat(model)


def flat(model: Any) -> Any:
    return torch.cat([p.detach().reshape(-1) for p in model.parameters()])


def close(one: Any, two: Any, most: float = 1e-5) -> bool:
    here = bool((one - two).abs().max() < most)
    return here and len({*world.allgather(one.numpy().tobytes())}) == 1


def optimizers() -> None:
    right["trained"] = close(trained(), alone())
    right["accumulated"] = close(trained(passes=2), alone(passes=2))
    right["clipped"] = close(trained(clips=True), alone(clips=True))
    right["summed"] = close(trained(op=hvd.Sum), alone(sums=True))
    right["half precision"] = close(trained(compression=hvd.Compression.fp16), alone(), 2e-3)
    os.environ[COMPRESS_VARIABLE] = "int8"
    right["with our codec"] = close(trained(), alone(), 0.02)
    del os.environ[COMPRESS_VARIABLE]


def joined() -> None:
    """Ranks with fewer batches join; their gradients are zeros until all have."""
    model = network()
    optimizer = hvd.DistributedOptimizer(torch.optim.SGD(model.parameters(), lr=0.05))
    for step in range(2 + rank):
        optimizer.zero_grad()
        loss_of(model, step, rank).backward()
        optimizer.step()
        hvd.allreduce(torch.ones(3), name="metric")
    right["last to join"] = hvd.join() == size - 1
    hvd.broadcast_parameters(model.state_dict(), root_rank=size - 1)
    reference = network()
    other = torch.optim.SGD(reference.parameters(), lr=0.05)
    for step in range(1 + size):
        other.zero_grad()
        for of in ranks:
            if step < 2 + of:
                (loss_of(reference, step, of) / size).backward()
        other.step()
    right["joined"] = close(flat(model), flat(reference))


def elastic() -> None:
    """A training of Horovod's elastic form, whose sampler divides what is left of an epoch."""
    model = network()
    optimizer = hvd.DistributedOptimizer(torch.optim.SGD(model.parameters(), lr=0.05))
    sampler = hvd.elastic.ElasticSampler(range(10), seed=4)
    seen: list[int] = []

    def train(state: Any) -> str:
        while state.epoch < 2:
            state.sampler.set_epoch(state.epoch)
            for number, example in enumerate(state.sampler):
                seen.append(example)
                optimizer.zero_grad()
                loss_of(model, number, rank).backward()
                optimizer.step()
                state.sampler.record_batch(number, 1)
                state.commit()
            state.epoch += 1
        return "trained"

    state = hvd.elastic.TorchState(model, optimizer, epoch=rank, sampler=sampler)
    state.register_reset_callbacks([lambda: None])
    right["elastic"] = hvd.elastic.run(train)(state) == "trained" and state.epoch == 2
    everything = [one for part in world.allgather(seen) for one in part]
    right["each once"] = len({*everything}) == 10 and len(everything) == len(sampler) * 2 * size
    sampler.set_epoch(2)
    sampler.record_batch(1, 1)
    place = sampler.state_dict()
    sampler.load_state_dict(place)
    left = [one for part in world.allgather([*sampler]) for one in part]
    right["what is left"] = len({*left}) == 10 - min(10, 2 * size)


def refusal(call: Any) -> str:
    try:
        call()
    except (WorkbenchError, ValueError, ImportError) as error:
        return f"{type(error).__name__}: {error}"
    return ""


def refused() -> dict[str, str]:
    model = network()
    sgd = torch.optim.SGD(model.parameters(), lr=0.1)
    twice = [("same", p) for p in model.parameters()]
    return {
        "adasum": refusal(lambda: hvd.DistributedOptimizer(sgd, op=hvd.Adasum)),
        "twice": refusal(lambda: hvd.DistributedOptimizer(sgd, named_parameters=twice)),
        "norm": refusal(lambda: hvd.SyncBatchNorm(3)),
        "keras": refusal(lambda: __import__("horovod.keras")),
        "tensorflow": refusal(lambda: __import__("horovod.tensorflow")),
    }


uninitialized = refusal(hvd.rank)
begin()
ranks_and_values()
set_current(None)
right["stays"] = hvd.is_initialized() and hvd.rank() == rank  # for the cells of later runs
begin()  # another run on the same ranks
optimizers()
joined()
elastic()
found["right"] = right
found["errors"] = refused() | {"rank": uninitialized}
set_current(None)

write_found()
