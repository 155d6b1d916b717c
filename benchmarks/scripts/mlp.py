"""Train an MLP with ordinary ChainerMN on made-up data, and write down how long iterations took.

It knows nothing of workbench: ``mpiexec -n 2 python mlp.py --times times.json``.
"""

import argparse
import json
import random
import time

import chainer
import chainer.functions as F  # noqa: N812 - Chainer's own examples call it so
import chainer.links as L  # noqa: N812 - likewise
import chainermn
import numpy as np
from chainer.training import extensions


class MLP(chainer.Chain):
    def __init__(self, units):
        super().__init__()
        with self.init_scope():
            self.l1 = L.Linear(784, units)
            self.l2 = L.Linear(units, units)
            self.l3 = L.Linear(units, 10)

    def forward(self, x):
        return self.l3(F.relu(self.l2(F.relu(self.l1(x)))))


class Clock(chainer.training.Extension):
    """Notes the moment at which each iteration ended."""

    trigger = (1, "iteration")

    def __init__(self):
        self.moments = []
        self.first = 0.0

    def __call__(self, trainer):
        self.moments.append(time.perf_counter())
        self.first = self.first or time.time()

    def write(self, path):
        with open(path, "w", encoding="utf-8") as file:
            json.dump({"first": self.first, "iterations": np.diff(self.moments).tolist()}, file)


def images(seed):
    random = np.random.RandomState(seed)
    labels = random.randint(0, 10, 4096).astype(np.int32)
    centres = random.rand(10, 784).astype(np.float32)
    noise = random.normal(0, 0.5, (4096, 784)).astype(np.float32)
    return chainer.datasets.TupleDataset(centres[labels] + noise, labels)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--iterations", type=int, default=1000)
    parser.add_argument("--batchsize", type=int, default=64, help="images a step and rank")
    parser.add_argument("--units", type=int, default=256)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--times", required=True, help="file for rank 0's times")
    parser.add_argument("--out", default="result")
    args = parser.parse_args()

    random.seed(args.seed)
    np.random.seed(args.seed)

    comm = chainermn.create_communicator("naive")
    model = L.Classifier(MLP(args.units))
    optimizer = chainermn.create_multi_node_optimizer(chainer.optimizers.Adam(), comm)
    optimizer.setup(model)
    data = images(args.seed) if comm.rank == 0 else None
    train = chainermn.scatter_dataset(data, comm, shuffle=True, seed=args.seed)
    iterator = chainer.iterators.SerialIterator(train, args.batchsize)

    updater = chainer.training.StandardUpdater(iterator, optimizer)
    trainer = chainer.training.Trainer(updater, (args.iterations, "iteration"), out=args.out)
    clock = Clock()
    trainer.extend(clock)
    if comm.rank == 0:
        trainer.extend(extensions.LogReport(filename=None))
        trainer.extend(extensions.PrintReport(["epoch", "iteration", "main/loss", "main/accuracy"]))
    trainer.run()
    if comm.rank == 0:
        clock.write(args.times)


if __name__ == "__main__":
    main()
