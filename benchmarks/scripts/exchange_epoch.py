"""Train for an epoch with compute as long as a slow GPU's, which sleep stands for.

Arguments: way, seconds of compute a step, steps of one rank's epoch. The network has as many
parameters as the article's (7.6 million), so its gradients are as large.
"""

from __future__ import annotations

import json
import sys
import time
from typing import Any

import chainer
import chainer.functions as F  # noqa: N812  # as everybody writes it
import chainer.links as L  # noqa: N812  # as everybody writes it
import chainermn
import numpy
from mpi4py import MPI
from sklearn.datasets import load_digits

import workbench
from benchmarks.scripts.pause import Pause

FOUND = "found: "
UNITS = 2_700
BATCH = 8
LAYERS = 3
OPTIONS: dict[str, dict[str, Any]] = {
    "ours": {},
    "ours, fp16": {"compress": "fp16"},
    "ours, int8": {"compress": "int8"},
    "ours, powersgd": {"compress": "powersgd"},
}


class Net(chainer.Chain):
    def __init__(self, seconds: float) -> None:
        super().__init__()
        self._seconds = seconds / LAYERS
        with self.init_scope():
            self.a = L.Linear(64, UNITS)
            self.b = L.Linear(UNITS, UNITS)
            self.c = L.Linear(UNITS, 10)

    def forward(self, x: Any) -> Any:
        for layer in (self.a, self.b):
            (x,) = Pause(self._seconds).apply((F.relu(layer(x)),))
        return Pause(self._seconds).apply((self.c(x),))[0]


def main() -> None:
    world, way, seconds = MPI.COMM_WORLD, sys.argv[1], float(sys.argv[2])
    steps = int(sys.argv[3]) // world.size
    images, labels = load_digits(return_X_y=True)
    images, labels = (images / 16).astype("f4"), labels.astype("i4")
    numpy.random.seed(0)
    model = L.Classifier(Net(seconds))
    comm = workbench.create_communicator(**OPTIONS[way]) if way in OPTIONS else None
    comm = comm or chainermn.create_communicator("naive")
    optimizer = chainer.optimizers.MomentumSGD(0.02)
    optimizer = chainermn.create_multi_node_optimizer(optimizer, comm).setup(model)
    order = numpy.random.RandomState(1).permutation(len(images))
    mine = order[world.rank :: world.size]

    def step(number: int) -> None:
        chosen = mine[numpy.arange(number * BATCH, (number + 1) * BATCH) % len(mine)]
        Pause.until = time.perf_counter()
        optimizer.update(model, images[chosen], labels[chosen])

    model.predictor._seconds, usual = 0.0, model.predictor._seconds
    for number in range(2):  # the first sends the parameters, the second makes the plan
        step(number)
    model.predictor._seconds = usual
    world.Barrier()
    start = time.perf_counter()
    for number in range(2, 2 + steps):
        step(number)
    world.Barrier()
    took = time.perf_counter() - start
    model.predictor._seconds = 0.0
    with chainer.using_config("train", False), chainer.no_backprop_mode():
        right = model.predictor(images).array.argmax(axis=1) == labels
    if world.rank == 0:
        found = {"rank": 0, "seconds": took, "accuracy": float(right.mean()), "steps": steps}
        print(FOUND + json.dumps(found), flush=True)


if __name__ == "__main__":
    main()
