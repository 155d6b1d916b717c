"""Train for some steps with a network's real shapes, and compute as long as a slow GPU's.

Arguments: way, network, seconds of compute a step or 0 for what a core needs for an example of 224
pixels, by what time is slowed, steps. What is slept: compute, divided among layers by their
multiplications, and what codec and optimizer cost a core of its own. That is measured first, by
rank 0 while the others wait, and slept as many times slower as the rest. All of it holds up the
rank, as on a node with one core. Messages are real, and so are the other codecs' conversions.
"""

from __future__ import annotations

import json
import math
import sys
import time
from collections.abc import Callable
from typing import Any

import chainer
import chainermn
import numpy as np
from mpi4py import MPI

import workbench
from benchmarks.scripts.network_layers import NETWORKS, computed
from benchmarks.scripts.pause import Pause
from workbench.core.performance.exchange_model import Codec
from workbench.engine.exchange import exchanger
from workbench.engine.exchange.bucket_layout import DIRECT_BYTES
from workbench.engine.exchange.costs import build_codec, coding_seconds
from workbench.engine.exchange.powersgd import PowerSgd, is_worthwhile

FOUND = "found: "
RANK = 4


class Layer(chainer.FunctionNode):
    """Passes its input on; its weights get a gradient that is as large as they are."""

    def __init__(self, gradient: Any) -> None:
        self._gradient = gradient

    def forward(self, inputs: Any) -> Any:
        return (inputs[0],)

    def backward(self, indexes: Any, gradients: Any) -> Any:
        return gradients[0], chainer.Variable(self._gradient)


class Net(chainer.Chain):
    def __init__(self, layers: Any, seconds: float) -> None:
        super().__init__()
        products = [math.prod(shape) * width**2 for shape, width in layers]
        self._seconds = [seconds * one / sum(products) for one in products]
        random = np.random.default_rng(MPI.COMM_WORLD.rank)
        self._gradients = [random.standard_normal(shape, "f4") for shape, _ in layers]
        with self.init_scope():
            for number, (shape, _) in enumerate(layers):
                setattr(self, f"layer{number:03}", chainer.Parameter(np.zeros(shape, "f4")))

    def forward(self, x: Any) -> Any:
        for number, seconds in enumerate(self._seconds):
            weights = getattr(self, f"layer{number:03}")
            (x,) = Layer(self._gradients[number]).apply((x, weights))
            if seconds:
                (x,) = Pause(seconds).apply((x,))
        return chainer.functions.sum(x)


def measured_alone(measure: Callable[[], float]) -> float:
    """Return what rank 0 measures while the others wait without a core."""
    world = MPI.COMM_WORLD
    world.Barrier()
    found = measure() if world.rank == 0 else 0.0
    reached = world.Ibarrier()
    while not reached.Test():
        time.sleep(0.05)  # a rank that waits in MPI would take the core
    return float(world.bcast(found))


def slow_codec(each: float, slower: float) -> None:
    """Have each average by a codec sleep what it costs, slowed.

    PowerSGD's factors are sent, and its products only slept: eight ranks that compute them on two
    cores would wait for each other before every message.
    """

    def slowed(*arguments: Any, **options: Any) -> Any:
        found = build_codec(*arguments, **options)
        theirs = found.mean
        if isinstance(found, PowerSgd):
            nothing = {"_multiply": lambda free, news: True, "_product": lambda p, q, out: None}
            vars(found).update(nothing)

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


def update_seconds(net: Net) -> float:
    """Return the core seconds of the optimizer alone."""
    optimizer = chainer.optimizers.MomentumSGD(0.01).setup(net)
    took = []
    for _ in range(4):
        for parameter, gradient in zip(net.params(), net._gradients, strict=True):
            parameter.grad = gradient
        begun = time.thread_time()
        optimizer.update()
        took.append(time.thread_time() - begun)
    net.cleargrads()
    for link in net.links():
        for parameter in link.params(include_uninit=False):
            parameter.update_rule = None
    return min(took[1:])


def main() -> None:
    world, way, layers = MPI.COMM_WORLD, sys.argv[1], NETWORKS[sys.argv[2]]
    seconds, slower, steps = float(sys.argv[3]), float(sys.argv[4]), int(sys.argv[5])
    codec = Codec(way.partition(", ")[2] or "none")
    seconds = seconds or measured_alone(lambda: computed(sys.argv[2]))
    each, coded = 0.0, [shape for shape, _ in layers if 4 * math.prod(shape) >= DIRECT_BYTES]
    if codec is Codec.POWERSGD:
        coded = [shape for shape in coded if is_worthwhile(shape, RANK)]
    if codec is not Codec.NONE and world.size > 1:
        each = measured_alone(lambda: coding_seconds(codec, RANK, world.size, coded))
        slow_codec(each, slower)
    if way == "naive":
        comm = chainermn.create_communicator("naive")
    else:
        comm = workbench.create_communicator(compress=str(codec))
    net = Net(layers, seconds * slower)
    updating = measured_alone(lambda: update_seconds(net))
    optimizer = chainer.optimizers.MomentumSGD(0.01)
    optimizer = chainermn.create_multi_node_optimizer(optimizer, comm).setup(net)
    x, usual = np.ones((1, 1), "f4"), net._seconds
    waits: list[float] = []

    def step() -> None:
        Pause.until = time.perf_counter()
        optimizer.update(net, x)
        if net._seconds is usual:
            waits.append(time.perf_counter() - Pause.until)  # since the last of the compute
            time.sleep(updating * slower)

    net._seconds = [0.0] * len(layers)
    for _ in range(3):  # the first sends the parameters, the second makes the plan
        step()
    net._seconds = usual
    world.Barrier()
    start, used = time.perf_counter(), time.process_time()
    for _ in range(steps):
        step()
    used = time.process_time() - used
    world.Barrier()
    took = (time.perf_counter() - start) / slower / steps
    used = world.allreduce(used) / slower / steps
    if world.rank == 0:
        numbers = sum(math.prod(shape) for shape in coded)
        parts = {
            "compute": seconds,
            "coding": each * numbers,
            "update": updating,
            "tail": float(np.median(waits)) / slower,
            "real": used,
        }
        print(FOUND + json.dumps({"rank": 0, "step": took, **parts}), flush=True)


if __name__ == "__main__":
    main()
