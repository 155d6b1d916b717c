"""Train two models with one communicator, each alone and both in turn."""

from __future__ import annotations

from typing import Any
from unittest.mock import patch

import chainer
import chainer.links as links
import chainermn
import numpy as np
from mpi4py import MPI

import workbench
from tests.engine.programs.world import found, rank, worlds, write_found
from workbench.engine.exchange.exchanger import Exchanger

worlds.offer(0)
agreed: list[Exchanger] = []
agree = Exchanger._agree


def noted(self: Exchanger, *arguments: Any) -> Any:
    agreed.append(self)
    return agree(self, *arguments)


patch.object(Exchanger, "_agree", noted).start()


class Net(chainer.Chain):
    def __init__(self, seed, units):
        super().__init__()
        np.random.seed(seed)
        with self.init_scope():
            self.a, self.b = links.Linear(50, units), links.Linear(units, 3)

    def forward(self, x):
        return self.b(self.a(x))


def trained(which, double, **options):
    comm = workbench.create_communicator(**options)
    optimizers = []
    for one in which:
        model = links.Classifier(Net(one, (300, 1_000)[one]))
        optimizers.append(
            chainermn.create_multi_node_optimizer(
                chainer.optimizers.SGD(0.1), comm, double_buffering=double
            ).setup(model)
        )
    draws = [np.random.RandomState(10 * rank + one) for one in which]
    for _ in range(6):
        for optimizer, draw in zip(optimizers, draws, strict=True):
            x, y = draw.rand(8, 50).astype("f4"), draw.randint(0, 3, 8).astype("i4")
            optimizer.update(optimizer.target, x, y)
    if double:
        for optimizer in optimizers:
            comm.land(optimizer)
    return [
        b"".join(p.array.tobytes() for _, p in sorted(o.target.namedparams())) for o in optimizers
    ]


WAYS: dict[str, dict[str, Any]] = {
    "plain": {"overlap": False},
    "overlap": {"overlap": True},
    "int8": {"compress": "int8", "overlap": True},
}
for how, options in WAYS.items():
    for double in (False, True):
        apart = [trained([one], double, **options)[0] for one in (0, 1)]
        agreed.clear()
        both = trained([0, 1], double, **options)
        found[f"{how} {double}"] = both == apart and len({*MPI.COMM_WORLD.allgather(both[0])}) == 1
        found[f"agreed {how} {double}"] = len(agreed) == 2

write_found()
