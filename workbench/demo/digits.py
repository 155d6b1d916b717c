"""Train a small convolutional network on drawn digits, as an ordinary script of ChainerMN.

It also runs without workbench: ``mpiexec -n 2 python digits.py``.
"""

# mypy: ignore-errors
# Written as a user's script; Chainer has no annotations to check against.

import argparse
import random

import chainer
import chainer.functions as F  # noqa: N812 - Chainer's own examples call it so
import chainer.links as L  # noqa: N812 - likewise
import chainermn
import numpy as np
from chainer.training import extensions

from workbench.demo.images import TRAINING, digits


class Net(chainer.Chain):
    """Two convolutions and one linear layer, for images of 8 x 8."""

    def __init__(self):
        super().__init__()
        with self.init_scope():
            self.conv1 = L.Convolution2D(1, 16, ksize=3, pad=1)
            self.conv2 = L.Convolution2D(16, 32, ksize=3, pad=1)
            self.linear = L.Linear(32 * 2 * 2, 10)

    def forward(self, x):
        """Return the ten logits of each image."""
        h = F.max_pooling_2d(F.relu(self.conv1(x)), 2)
        h = F.max_pooling_2d(F.relu(self.conv2(h)), 2)
        return self.linear(h)


def split_digits():
    """Return the images as a training and a test set."""
    images, labels = digits()
    data = chainer.datasets.TupleDataset(images[:, None], labels)
    return chainer.datasets.split_dataset(data, TRAINING)


def main():
    """Train on all ranks; rank 0 prints."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--epoch", type=int, default=10)
    parser.add_argument("--batchsize", type=int, default=16, help="images a step and rank")
    parser.add_argument("--out", default="result")
    args = parser.parse_args()

    random.seed(0)
    np.random.seed(0)

    comm = chainermn.create_communicator("naive")
    model = L.Classifier(Net())
    optimizer = chainermn.create_multi_node_optimizer(chainer.optimizers.Adam(alpha=0.003), comm)
    optimizer.setup(model)

    train, test = split_digits() if comm.rank == 0 else (None, None)
    train = chainermn.scatter_dataset(train, comm, shuffle=True, seed=0)
    test = chainermn.scatter_dataset(test, comm)
    train_iter = chainer.iterators.SerialIterator(train, args.batchsize)
    test_iter = chainer.iterators.SerialIterator(test, 90, repeat=False, shuffle=False)

    updater = chainer.training.StandardUpdater(train_iter, optimizer)
    trainer = chainer.training.Trainer(updater, (args.epoch, "epoch"), out=args.out)
    evaluator = chainermn.create_multi_node_evaluator(extensions.Evaluator(test_iter, model), comm)
    trainer.extend(evaluator)
    if comm.rank == 0:
        trainer.extend(extensions.LogReport())
        trainer.extend(
            extensions.PrintReport(
                ["epoch", "main/loss", "validation/main/loss", "validation/main/accuracy"]
            )
        )
    trainer.run()


if __name__ == "__main__":
    main()
