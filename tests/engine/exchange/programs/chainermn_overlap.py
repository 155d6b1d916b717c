"""Train with gradients that leave during the backward pass, and with all of them after it."""

from __future__ import annotations

import chainer
import chainer.functions as functions
import chainer.links as links
import chainermn
import numpy as np
from mpi4py import MPI

import workbench
from tests.engine.programs.world import found, rank, worlds, write_found

worlds.offer(0)


class Net(chainer.Chain):
    def __init__(self):
        super().__init__()
        with self.init_scope():
            self.a, self.b, self.c = (
                links.Linear(50, 400),
                links.Linear(400, 400),
                links.Linear(400, 3),
            )
            self.unused = links.Linear(300, 300)

    def forward(self, x):
        return self.c(self.b(functions.relu(self.b(functions.relu(self.a(x))))))  # b is used twice


def weights(accumulates=False, **options):
    np.random.seed(0)
    model, random = links.Classifier(Net()), np.random.RandomState(rank)
    comm = workbench.create_communicator(**options)
    optimizer = chainermn.create_multi_node_optimizer(chainer.optimizers.Adam(), comm).setup(model)
    launched = 0
    for step in range(4):
        x, y = random.rand(8, 50).astype("f4"), random.randint(0, 3, 8).astype("i4")
        if accumulates and step == 2:

            def more(target, original=optimizer.is_changed):
                for parameter in target.params():  # as a second backward pass would
                    if parameter.grad is not None:
                        parameter.grad = parameter.grad + 1
                return original(target)

            object.__setattr__(optimizer, "is_changed", more)
        optimizer.update(model, x, y)
        optimizer.__dict__.pop("is_changed", None)
        launched = max(launched, len(comm.exchanger.plan.buckets) if comm.exchanger.plan else 0)
    return b"".join(p.array.tobytes() for _, p in sorted(model.namedparams())), launched


plain, _ = weights(overlap=False)
early, launched = weights(overlap=True)
found["equal"] = np.allclose(np.frombuffer(plain, "f4"), np.frombuffer(early, "f4"), atol=1e-5)
found["alike"] = len({*MPI.COMM_WORLD.allgather(early)}) == 1
found["buckets"] = launched
plain, early = weights(True, overlap=False)[0], weights(True, overlap=True)[0]
found["accumulated"] = np.allclose(
    np.frombuffer(plain, "f4"), np.frombuffer(early, "f4"), atol=1e-5
)

write_found()
