"""Train an MLP with ChainerMN, watched and not in turn, and print how long a step took either way.

Both ways train one model by one optimizer on one iterator, in one process per rank. With a model
of its own, each way would begin with the other's in the cache, and memory layout would make one of
them some percent quicker.
"""

import json
import sys
import time
from pathlib import Path
from statistics import median

import chainer
import chainermn
import numpy as np
from mpi4py import MPI

import workbench.compat  # before chainer is imported
from benchmarks.scripts.mlp import MLP, images
from workbench.engine.reporting.run_log import RunLog
from workbench.engine.timing.mpi_calls import GenerationWorlds
from workbench.frameworks.chainer.gradient_noise import NoiseScaleMonitor
from workbench.frameworks.chainer.trainer_time import TrainerTime

assert workbench.compat
BATCH = 64


def main():
    folder, units, rounds = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
    steps = max(20, 25_600 // units)
    plain, rank = MPI.COMM_WORLD, MPI.COMM_WORLD.rank
    watched = GenerationWorlds(fault_tolerant=False).offer(0)
    log = RunLog("a-run", rank, folder / f"rank-{rank}" / "log")
    timing, noise = TrainerTime(log, batch=BATCH), NoiseScaleMonitor(log, BATCH)
    updaters = _updaters(units, plain, watched)
    number, left = [0], [time.perf_counter()]

    def off(amount):
        return [_timed(updaters[0].update) for _ in range(amount)]

    def on(amount):
        def step():
            updaters[1].update()
            number[0] += 1
            timing.step(number[0])

        # Its clock is stopped while the other way trains, so that it reports as often as usual.
        pause = time.perf_counter() - left[0]
        timing._since, timing._stepped = timing._since + pause, timing._stepped + pause
        # What is patched for all, such as the backward pass, is so for these steps alone.
        with timing.installed(updaters[1]), noise.installed(updaters[1]):
            took = [_timed(step) for _ in range(amount)]
        left[0] = time.perf_counter()
        return took

    pairs = []
    for _ in range(3):
        off(steps), on(steps)
    for turn in range(rounds):
        # ABBA: a drift falls on both alike.
        order = (off, on, on, off) if turn % 2 else (on, off, off, on)
        took = {off: [], on: []}
        for way in order:
            plain.Barrier()
            took[way] += way(steps)
        pairs.append([median(took[on]), median(took[off]), _mean(took[on]), _mean(took[off])])
    if rank == 0:
        reported = {name for _, _, values in log._samples for name, _ in values}
        assert {"step/waiting", "step/moving", "gradient_noise/signal"} <= reported, reported
        met = watched._meetings._met / (4 * steps)
        print(json.dumps({"pairs": pairs, "met": met}))


def _updaters(units, *comms):
    model = chainer.links.Classifier(MLP(units))
    actual = chainer.optimizers.Adam()
    iterator = chainer.iterators.SerialIterator(images(0), BATCH)
    optimizers = [
        chainermn.create_multi_node_optimizer(actual, chainermn.create_communicator("naive", comm))
        for comm in comms
    ]
    for optimizer in optimizers:
        optimizer.setup(model)
    return [chainer.training.StandardUpdater(iterator, optimizer) for optimizer in optimizers]


def _timed(do):
    start = time.perf_counter()
    do()
    return time.perf_counter() - start


def _mean(values):
    """Leave out the tenth that took longest, in which others had the cores."""
    kept = np.sort(values)[: len(values) * 9 // 10]
    return float(np.mean(kept))


if __name__ == "__main__":
    main()
