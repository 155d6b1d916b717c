"""Exchange the gradients of a network as large as ResNet-50, in several ways, in turn.

Arguments: rounds, and the ways. Each rank writes one line with what it found.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from types import SimpleNamespace

import numpy
from mpi4py import MPI

FOUND = "found: "


def shapes() -> list[tuple[int, ...]]:
    """Return the shapes of ResNet-50's 161 parameters, 25.6 million numbers."""
    found: list[tuple[int, ...]] = [(64, 3, 7, 7), (64,), (64,)]
    before = 64
    for width, blocks in ((64, 3), (128, 4), (256, 6), (512, 3)):
        for block in range(blocks):
            found += [(width, before, 1, 1), (width,), (width,)]
            found += [(width, width, 3, 3), (width,), (width,)]
            found += [(4 * width, width, 1, 1), (4 * width,), (4 * width,)]
            if block == 0:
                found += [(4 * width, before, 1, 1), (4 * width,), (4 * width,)]
            before = 4 * width
    return [*found, (1000, 2048), (1000,)]


class Model:
    """Parameters that have a gradient and nothing to compute."""

    def __init__(self, rank: int) -> None:
        random = numpy.random.RandomState(rank)
        self._named = [
            (f"/{n:03}", SimpleNamespace(data=g, array=g, grad=g.copy(), xp=numpy))
            for n, g in enumerate(random.rand(*shape).astype("f4") for shape in shapes())
        ]

    def namedparams(self) -> list[tuple[str, SimpleNamespace]]:
        return self._named

    @property
    def gradients(self) -> list[numpy.ndarray]:
        return [parameter.grad for _, parameter in self._named]


def one_buffer(model: Model) -> Callable[[], None]:
    flat = numpy.concatenate([g.ravel() for g in model.gradients])
    return lambda: MPI.COMM_WORLD.Allreduce(MPI.IN_PLACE, flat)


def naive(model: Model) -> Callable[[], None]:
    import chainermn

    comm = chainermn.create_communicator("naive")
    return lambda: comm.multi_node_mean_grad(model)


def ours(model: Model) -> Callable[[], None]:
    import workbench

    comm = workbench.create_communicator()
    return lambda: comm.multi_node_mean_grad(model)


def gloo(model: Model) -> Callable[[], None]:
    """As torch's DistributedDataParallel: fused into buckets of 25 MB, which are copied."""
    import torch
    import torch.distributed as dist

    comm = MPI.COMM_WORLD
    port = comm.bcast(sys.argv[3] if comm.rank == 0 else None)
    address = f"tcp://127.0.0.1:{port}"
    dist.init_process_group("gloo", init_method=address, rank=comm.rank, world_size=comm.size)
    tensors = [torch.from_numpy(g) for g in model.gradients]
    buckets: list[list[torch.Tensor]] = [[]]
    for tensor in tensors:
        if sum(t.numel() for t in buckets[-1]) * 4 > 25e6:
            buckets.append([])
        buckets[-1].append(tensor)

    def exchange() -> None:
        for bucket in buckets:
            flat = torch._utils._flatten_dense_tensors(bucket)
            dist.all_reduce(flat)
            flat /= comm.size
            for tensor, new in zip(
                bucket, torch._utils._unflatten_dense_tensors(flat, bucket), strict=True
            ):
                tensor.copy_(new)

    return exchange


def copied(model: Model) -> Callable[[], None]:
    """Copy the gradients once, both ranks at the same time: the lower bound of an exchange."""
    others = [numpy.empty_like(g) for g in model.gradients]

    def copy() -> None:
        for new, old in zip(others, model.gradients, strict=True):
            numpy.copyto(new, old)

    return copy


WAYS = {"ours": ours, "naive": naive, "one buffer": one_buffer, "gloo": gloo, "copy": copied}


def main() -> None:
    comm, rounds = MPI.COMM_WORLD, int(sys.argv[1])
    chosen = sys.argv[2].split(",")
    ways = {name: WAYS[name](Model(comm.rank)) for name in chosen}
    found: dict[str, list[float]] = {name: [] for name in ways}
    for number in range(rounds + 2):  # two to become warm
        for name, exchange in ways.items():
            comm.Barrier()
            start = time.perf_counter()
            exchange()
            comm.Barrier()
            if number >= 2:
                found[name].append(time.perf_counter() - start)
    if comm.rank == 0:
        print(FOUND + json.dumps({"rank": comm.rank, **found}), flush=True)


if __name__ == "__main__":
    main()
