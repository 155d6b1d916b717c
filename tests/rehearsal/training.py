"""Train on all ranks in several ways, one after the other, and print each rank's measurements.

Arguments: a JSON list of ways, each with the names of ``Way``. Compute is slept, so that ranks that
share two cores take as long as on machines of their own; gradients are as large as a real
network's, and really move.
"""

from __future__ import annotations

import json
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

import chainer
import chainer.links as L  # noqa: N812  # as everybody writes it
import chainermn
import numpy
from mpi4py import MPI

import workbench
from benchmarks.scripts.pause import Pause
from workbench.engine.reporting.run_log import RunLog
from workbench.engine.timing.mpi_calls import GenerationWorlds
from workbench.frameworks.chainer.trainer_time import TrainerTime

FOUND = "found: "
# 1.25 million numbers in six layers, as many as SqueezeNet has.
UNITS, LAYERS = 454, 6
BATCH = 32
Pause.slack = 0.05
WARM_UP = 4


@dataclass(frozen=True)
class Way:
    """One training.

    Args:
        nodes: That take part; the first ones.
        compress: None for ChainerMN's own communicator.
        late: Seconds that rank 1 computes longer.
    """

    name: str
    nodes: int
    steps: int
    compute: float
    compress: str | None = None
    late: float = 0.0


class Net(chainer.ChainList):
    def __init__(self, seconds: float) -> None:
        super().__init__(*(L.Linear(UNITS, UNITS) for _ in range(LAYERS)))
        self.seconds = seconds

    def forward(self, x: Any) -> Any:
        for layer in self:
            (x,) = Pause(self.seconds / LAYERS).apply((layer(x),))
        return chainer.functions.mean(x * x)


def train(comm: MPI.Intracomm, way: Way, folder: Path) -> dict[str, Any]:
    late = way.late if comm.rank == 1 else 0.0
    model = Net(way.compute + late)
    if way.compress is None:
        communicator = chainermn.create_communicator("naive", comm)
    else:
        communicator = workbench.create_communicator(mpi_comm=comm, compress=way.compress)
    optimizer = chainermn.create_multi_node_optimizer(chainer.optimizers.SGD(1e-3), communicator)
    optimizer.setup(model)
    images = numpy.random.RandomState(comm.rank).standard_normal((BATCH, UNITS)).astype("f4")
    iterator = chainer.iterators.SerialIterator(images, BATCH, shuffle=False)
    updater = chainer.training.StandardUpdater(iterator, optimizer)
    log = RunLog("a-run", comm.rank, folder / way.name)
    took = []
    timing = TrainerTime(log, leader=comm.rank, batch=BATCH)
    with timing.installed(updater):
        for number in range(1, WARM_UP + way.steps + 1):
            Pause.until = before = time.perf_counter()
            updater.update()
            took.append(time.perf_counter() - before)
            timing.step(number)
    timing.finish(WARM_UP + way.steps)
    samples = [
        (name, iteration, value)
        for iteration, _, pairs in (one for one in log._samples if isinstance(one, tuple))
        for name, value in pairs
        if iteration > WARM_UP or not name.startswith("step/")
    ]
    return {
        "rank": comm.rank, "way": way.name, "took": median(took[WARM_UP:]), "samples": samples,
    }  # fmt: skip


def main() -> None:
    worlds = GenerationWorlds(fault_tolerant=False)
    world = worlds.true
    for values in json.loads(sys.argv[1]):
        way = Way(**values)
        if world.rank < way.nodes:
            found = train(worlds.offer(way.nodes), way, Path("/tmp"))
            print(FOUND + json.dumps(found), flush=True)
        barrier = world.Ibarrier()
        while not barrier.Test():  # without the cores that who trains needs
            time.sleep(0.02)


if __name__ == "__main__":
    main()
