"""Train an MLP in blocks, in turn as a run of workbench and as a program that knows none of it.

Model, data, optimizer and the trainer's own extensions are the same objects, or alike, in both: so
memory layout and load on the machine are the same for two blocks that follow each other. In the
blocks without, workbench's processes are held by who listens at ``--socket``, and the trainer is
one that workbench did not extend, on a communicator that it does not watch. What workbench has
patched in Chainer stays, which `anatomy` measures. With ``--control`` both kinds of blocks are
without: what is found then is the error of the benchmark itself.
"""

import argparse
import json
import os
import socket
import sys
import time

import chainer
import chainermn
import numpy as np
from chainer.training import extensions
from mpi4py import MPI

from benchmarks.scripts.mlp import MLP, images

BATCH, UNITS = 64, 256
FREE_SECONDS = 0.5
PLAIN = MPI.Intracomm(MPI.COMM_WORLD)


class Clock(chainer.training.Extension):
    """Notes the moment at which each iteration ended, last of all that its end has to do."""

    trigger = (1, "iteration")
    priority = -1_000

    def __init__(self):
        self.moments = []

    def __call__(self, trainer):
        self.moments.append(time.perf_counter())


class Interrupted(chainer.training.StandardUpdater):
    """An updater that does something else before every ``block``-th of its updates."""

    def __init__(self, iterator, optimizer, block, between):
        super().__init__(iterator, optimizer)
        self._block, self._between = block, between

    def update(self):
        if self.iteration and self.iteration % self._block == 0:
            self._between()
        super().update()


class Holder:
    """Has workbench's processes held and freed by the benchmark; only rank 0 asks it."""

    def __init__(self, path):
        self._socket = None
        if PLAIN.rank == 0:
            self._socket = socket.socket(socket.AF_UNIX)
            self._socket.connect(path)

    def ask(self, word):
        if self._socket is not None:
            self._socket.sendall(word)
            self._socket.recv(1)
        PLAIN.Barrier()


def trainer_of(updater, iterations, clock, folder, out):
    trainer = chainer.training.Trainer(updater, (iterations, "iteration"), out=folder)
    if PLAIN.rank == 0:
        trainer.extend(extensions.LogReport(filename=None))
        names = ["epoch", "iteration", "main/loss", "main/accuracy"]
        trainer.extend(extensions.PrintReport(names, out=out))
    trainer.extend(clock)
    return trainer


def train(trainer, iterations):
    """Do what the trainer's own loop does, without a call that workbench extends."""
    trainer._start_at = trainer._start_at or time.time()
    entries = sorted(trainer._extensions.values(), key=lambda one: -one.priority)
    for _ in range(iterations):
        if trainer.stop_trigger(trainer):
            break
        trainer.observation = {}
        with trainer.reporter.scope(trainer.observation):
            trainer.updater.update()
            for entry in entries:
                if entry.trigger(trainer):
                    entry.extension(trainer)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--pairs", type=int, required=True)
    parser.add_argument("--block", type=int, required=True, help="iterations of a block")
    parser.add_argument("--free", type=int, required=True, help="blocks of the run between two")
    parser.add_argument("--control", action="store_true", help="plain blocks only")
    parser.add_argument("--times", required=True, help="file for rank 0's times")
    parser.add_argument("--socket", required=True)
    args = parser.parse_args()
    np.random.seed(0)
    holder = Holder(args.socket)

    model = chainer.links.Classifier(MLP(UNITS))
    actual = chainer.optimizers.Adam()
    optimizers = [
        chainermn.create_multi_node_optimizer(
            actual, chainermn.create_communicator("naive", comm)
        ).setup(model)
        for comm in (MPI.COMM_WORLD, PLAIN)
    ]
    data = images(0) if PLAIN.rank == 0 else None
    data = chainermn.scatter_dataset(data, optimizers[0].communicator, shuffle=True, seed=0)
    iterator = chainer.iterators.SerialIterator(data, BATCH)
    ours, theirs, blocks = Clock(), Clock(), {"with": [], "without": []}
    folder, stretch = os.path.dirname(args.times), args.free * args.block
    iterations = (args.pairs + 1) * stretch

    with open(os.path.join(folder, f"out-{PLAIN.rank}"), "w", encoding="utf-8") as out:
        usual = chainer.training.StandardUpdater(iterator, optimizers[1])
        plain = trainer_of(usual, iterations, theirs, folder, out)

        def free():
            holder.ask(b"f")
            time.sleep(FREE_SECONDS)  # a supervisor that is held for long takes harm

        def between():
            blocks["with"].append(np.diff(ours.moments).tolist())
            if args.control:
                free()  # before each block, so that both follow a pause
            holder.ask(b"h")
            train(plain, args.block)
            blocks["without"].append(np.diff(theirs.moments).tolist())
            theirs.moments.clear()
            ours.moments.clear()
            holder.ask(b"f")

        if args.control:
            again = chainer.training.StandardUpdater(iterator, optimizers[1])
            alike = trainer_of(again, iterations, ours, folder, out)
            for number in range(args.pairs + 1):
                if number:
                    between()
                free()
                holder.ask(b"h")
                train(alike, stretch)
        else:
            updater = Interrupted(iterator, optimizers[0], stretch, between)
            trainer_of(updater, iterations, ours, folder, sys.stdout).run()
    blocks["with"].append(np.diff(ours.moments).tolist())
    if PLAIN.rank == 0:
        with open(args.times, "w", encoding="utf-8") as file:
            json.dump(blocks, file)


if __name__ == "__main__":
    main()
