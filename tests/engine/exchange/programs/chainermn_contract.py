"""What ChainerMN asks of a communicator of its own, asked of ours."""

from __future__ import annotations

import chainer
import chainer.links as links
import chainermn
import numpy as np

import workbench
from tests.engine.programs.world import found, rank, size, worlds, write_found

worlds.offer(0)
comm = workbench.create_communicator("naive")
middle = (size - 1) / 2


class Model(chainer.Chain):
    def __init__(self, dtype="f4"):
        super().__init__()
        with self.init_scope(), chainer.using_config("dtype", np.dtype(dtype)):
            self.a = links.Linear(2, 3)
            self.b = links.Linear(3, 4)
            self.c = links.Linear(None, 5)  # has a bias and no weights yet


def fill(model, with_bias=True):
    model.a.W.grad = np.full_like(model.a.W.array, rank)
    model.b.W.grad = np.full_like(model.b.W.array, rank + 1)
    model.c.b.grad = np.full_like(model.c.b.array, rank + 2) if with_bias else None


def are(array, value):
    return bool(np.allclose(array, value))


for dtype in ("f2", "f4", "f8"):
    model = Model(dtype)
    for step in range(2):
        fill(model)
        comm.multi_node_mean_grad(model)
        found[f"mean {dtype} {step}"] = (
            are(model.a.W.grad, middle)
            and are(model.b.W.grad, middle + 1)
            and are(model.c.b.grad, middle + 2)
        )
        found[f"type {dtype} {step}"] = model.a.W.grad.dtype == np.dtype(dtype)
    model = Model(dtype)
    for step in range(2):
        fill(model, with_bias=False)
        comm.multi_node_mean_grad(model)
        found[f"empty {dtype} {step}"] = are(model.a.W.grad, middle) and model.c.b.grad is None
    model = Model(dtype)
    for step in range(2):
        fill(model, with_bias=rank % 2 == 0)
        comm.multi_node_mean_grad(model, zero_fill=True)
        wanted = sum(n + 2 for n in range(0, size, 2)) / size
        found[f"half empty {dtype} {step}"] = np.allclose(model.c.b.grad, wanted, rtol=1e-3)

model = Model()
fill(model)
chainer.set_debug(True)
try:
    comm.multi_node_mean_grad(model)  # the rest was never computed, and is NaN
except ValueError as error:
    found["debug"] = "diverged" in str(error)
chainer.set_debug(False)

model.a.W.array[:] = rank
comm.bcast_data(model)
found["bcast_data"] = are(model.a.W.array, 0)

right, left = (rank + 1) % size, (rank - 1) % size
pieces = (np.full((5, 2), rank, "f4"), np.full(3, rank, "f4"))
if size > 1:
    if rank % 2 == 0:
        comm.send(pieces, right, 0)
    if rank % 2 == 1 or (size % 2 == 1 and rank == 0):
        found["recv"] = all(are(array, left) for array in comm.recv(left, 0))
    if rank % 2 == 1:
        comm.send(pieces, right, 0)
    if rank % 2 == 0 and not (size % 2 == 1 and rank == 0):
        found["recv"] = all(are(array, left) for array in comm.recv(left, 0))
found["allreduce"] = are(comm.allreduce(np.full(4, rank + 1.0, "f4")), size * (size + 1) / 2)
found["alltoall"] = all(
    are(a, n)
    for n, a in enumerate(comm.alltoall(tuple(np.full(2, rank, "f4") for _ in range(size))))
)

half = comm.split(rank % 2, rank)
model = Model()
fill(model)
half.multi_node_mean_grad(model)
found["split"] = are(model.a.W.grad, np.mean(range(rank % 2, size, 2)))

data = chainermn.scatter_dataset(list(range(12)), comm)
found["scatter"] = sorted(x for some in comm.mpi_comm.allgather(list(data)) for x in some)[:12]
found["scatter"] = len(data) == -(-12 // size)

evaluator = chainer.training.extensions.Evaluator(
    chainer.iterators.SerialIterator(
        chainer.datasets.TupleDataset(np.full((4, 2), rank + 1, "f4"), np.zeros(4, "i4")),
        4,
        False,
        False,
    ),
    links.Classifier(links.Linear(2, 2)),
)
evaluator = chainermn.create_multi_node_evaluator(evaluator, comm)
losses = [float(value) for name, value in evaluator().items() if name.endswith("loss")]
found["evaluator"] = len({*comm.mpi_comm.allgather(losses[0])}) == 1
for double in (False, True):
    np.random.seed(3)
    model = links.Classifier(links.Linear(40, 10))
    optimizer = chainermn.create_multi_node_optimizer(
        chainer.optimizers.SGD(0.5), comm, double_buffering=double
    ).setup(model)
    losses = []
    for _ in range(12):
        optimizer.update(model, np.eye(10, 40, dtype="f4"), np.arange(10, dtype="i4"))
        losses.append(float(model.loss.array))
    weights = model.predictor.W.array.tobytes()
    found[f"optimizer {double}"] = (
        losses[-1] < losses[0] and len({*comm.mpi_comm.allgather(weights)}) == 1
    )
    # The first sends the parameters; double buffering updates nothing in the second step either.
    found[f"stale {double}"] = (losses[2] == losses[1]) == double
comm.finalize()

write_found()
