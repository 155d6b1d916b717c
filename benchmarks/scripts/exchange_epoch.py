"""Train for some steps with a network's real shapes, and compute as long as a slow GPU's.

Arguments: way, seconds of compute a step, by what time is slowed, steps. What is slept: compute,
divided among layers by their multiplications, and what the codec costs a core of its own. That is
measured first, by rank 0 while the others wait, and slept as many times slower as the rest. It
holds up the compute of a rank as well, as on a node with one core.
"""

from __future__ import annotations

import json
import math
import sys
import time
from typing import Any

import chainer
import chainermn
import numpy as np
from mpi4py import MPI

import workbench
from benchmarks.scripts.pause import Pause
from workbench.core.performance.exchange_model import Codec
from workbench.engine.exchange import exchanger
from workbench.engine.exchange.costs import coding_seconds, made

FOUND = "found: "
# Network in Network for ImageNet: each convolution's weights, and the width of its output.
LAYERS = (
    ((96, 3, 11, 11), 54),
    ((96, 96, 1, 1), 54),
    ((96, 96, 1, 1), 54),
    ((256, 96, 5, 5), 27),
    ((256, 256, 1, 1), 27),
    ((256, 256, 1, 1), 27),
    ((384, 256, 3, 3), 13),
    ((384, 384, 1, 1), 13),
    ((384, 384, 1, 1), 13),
    ((1024, 384, 3, 3), 6),
    ((1024, 1024, 1, 1), 6),
    ((1000, 1024, 1, 1), 6),
)
RANK = 4


class Layer(chainer.FunctionNode):
    """Passes its input on; its weights get a gradient that is as large as they are."""

    def __init__(self, gradient: Any) -> None:
        self._gradient = gradient

    def forward(self, inputs: Any) -> Any:
        return (inputs[0],)

    def backward(self, indexes: Any, gradients: Any) -> Any:
        return gradients[0], chainer.Variable(self._gradient.copy())


class Net(chainer.Chain):
    def __init__(self, seconds: float) -> None:
        super().__init__()
        products = [math.prod(shape) * width**2 for shape, width in LAYERS]
        self._seconds = [seconds * one / sum(products) for one in products]
        random = np.random.default_rng(MPI.COMM_WORLD.rank)
        self._gradients = [random.standard_normal(shape, "f4") for shape, _ in LAYERS]
        with self.init_scope():
            for number, (shape, _) in enumerate(LAYERS):
                setattr(self, f"layer{number:02}", chainer.Parameter(np.zeros(shape, "f4")))

    def forward(self, x: Any) -> Any:
        for number, seconds in enumerate(self._seconds):
            weights = getattr(self, f"layer{number:02}")
            (x,) = Layer(self._gradients[number]).apply((x, weights))
            (x,) = Pause(seconds).apply((x,))
        return chainer.functions.sum(x)


def slow_codec(codec: Codec, slower: float) -> float:
    """Have each average by a codec sleep what it costs, slowed; return its cost per number."""
    world = MPI.COMM_WORLD
    shapes = [shape for shape, _ in LAYERS if math.prod(shape) > 8_192]
    world.Barrier()
    each = coding_seconds(codec, RANK, world.size, shapes) if world.rank == 0 else 0.0
    reached = world.Ibarrier()
    while not reached.Test():
        time.sleep(0.05)  # a rank that waits in MPI would take the core
    each = float(world.bcast(each))

    def slowed(*arguments: Any, **options: Any) -> Any:
        found = made(*arguments, **options)
        theirs = found.mean

        def mean(buffer: Any, **how: Any) -> bool:
            begun = time.thread_time()
            finite = theirs(buffer, **how)
            left = each * len(buffer) * slower
            Pause.until += left
            time.sleep(max(0.0, left - (time.thread_time() - begun)))
            return finite

        vars(found).update(mean=mean)
        return found

    vars(exchanger).update(made=slowed)
    return each


def main() -> None:
    world, way, seconds = MPI.COMM_WORLD, sys.argv[1], float(sys.argv[2])
    slower, steps = float(sys.argv[3]), int(sys.argv[4])
    codec = Codec(way.partition(", ")[2] or "none")
    each = 0.0
    if codec is not Codec.NONE and world.size > 1:
        each = slow_codec(codec, slower)
    if way == "naive":
        comm = chainermn.create_communicator("naive")
    else:
        comm = workbench.create_communicator(compress=str(codec))
    net = Net(seconds * slower)
    optimizer = chainer.optimizers.MomentumSGD(0.01)
    optimizer = chainermn.create_multi_node_optimizer(optimizer, comm).setup(net)
    x, usual = np.ones((1, 1), "f4"), net._seconds

    def step() -> None:
        Pause.until = time.perf_counter()
        optimizer.update(net, x)

    net._seconds = [0.0] * len(LAYERS)
    for _ in range(3):  # the first sends the parameters, the second makes the plan
        step()
    net._seconds = usual
    world.Barrier()
    start = time.perf_counter()
    for _ in range(steps):
        step()
    world.Barrier()
    took = (time.perf_counter() - start) / slower / steps
    if world.rank == 0:
        numbers = sum(math.prod(shape) for shape, _ in LAYERS)
        print(FOUND + json.dumps({"rank": 0, "step": took, "coding": each * numbers}), flush=True)


if __name__ == "__main__":
    main()
