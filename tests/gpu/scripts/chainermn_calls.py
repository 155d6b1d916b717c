"""Call each method of ChainerMN's communicators that moves arrays, with arrays on GPU 0."""

from __future__ import annotations

import chainer
import chainermn
import cupy
import numpy as np

import workbench

chainer.get_device("@cupy:0").use()


def check(comm: chainermn.CommunicatorBase) -> int:
    """Call all methods, and return how many results were compared."""
    rank, size = comm.rank, comm.size
    own = cupy.arange(6, dtype="f").reshape(2, 3) + 10 * rank
    others = [cupy.arange(6, dtype="f").reshape(2, 3) + 10 * one for one in range(size)]
    mine = [one + rank for one in others]
    results = [
        (comm.allreduce(own), sum(others)),
        (comm.bcast(own.copy()), others[0]),
        *zip(comm.allgather(own), others, strict=True),
        *zip(comm.alltoall(tuple(own + n for n in range(size))), mine, strict=True),
        (comm.scatter(tuple(others) if rank == 0 else None), own),
    ]
    if (gathered := comm.gather(own)) is not None:
        results += zip(gathered, others, strict=True)
    half = own.astype("e")
    if rank == 0:
        comm.send((own, own + 1), 1, 7)
        comm.send(half, 1, 8)
    elif rank == 1:
        one, two = comm.recv(0, 7)
        results += [
            (one, others[0]),
            (two, others[0] + 1),
            (comm.recv(0, 8), others[0].astype("e")),
        ]
    for dtype in ("f", "e"):
        with chainer.using_config("dtype", np.dtype(dtype)):
            model = chainer.links.Linear(3, 2, initialW=rank, initial_bias=rank)
        model.to_device("@cupy:0")
        comm.bcast_data(model)
        results += [(one.array, cupy.zeros_like(one.array)) for one in model.params()]
        for one in model.params():
            one.grad = cupy.full_like(one.array, rank)
        comm.multi_node_mean_grad(model)
        mean = (size - 1) / 2
        results += [(one.grad, cupy.full_like(one.array, mean)) for one in model.params()]
    layer = chainermn.links.MultiNodeBatchNormalization(3, comm)
    layer.to_device("@cupy:0")
    found = layer(own).array
    every = cupy.concatenate(others)
    wanted = (every - every.mean(axis=0)) / cupy.sqrt(every.var(axis=0) + layer.eps)
    results.append((found, wanted[2 * rank : 2 * rank + 2]))
    for number, (found, wanted) in enumerate(results):
        assert isinstance(found, cupy.ndarray), number
        assert found.dtype == wanted.dtype, (number, found.dtype)
        assert float(abs(found - wanted).max()) < 1e-4, (number, found, wanted)
    return len(results)


counts = [check(chainermn.create_communicator("naive")), check(workbench.create_communicator())]
if chainermn.create_communicator("naive").rank == 0:
    print(f"CHECKED {counts[0]} results of ChainerMN's naive and {counts[1]} of ours")
