"""Train a small network on drawn digits with NumPy, whose gradients MPI averages.

It also runs without workbench: ``mpiexec -n 2 python digits_numpy.py``.
"""

# mypy: ignore-errors
# Written as a user's script.

import argparse

import numpy as np
from mpi4py import MPI

import workbench
from workbench.demo.images import TRAINING, digits

HIDDEN = 128
comm = MPI.COMM_WORLD


class Perceptron:
    """Two linear layers, whose parameters are views of one vector."""

    def __init__(self, inputs, outputs, rng):
        shapes = ((inputs, HIDDEN), (HIDDEN,), (HIDDEN, outputs), (outputs,))
        ends = np.cumsum([np.prod(shape) for shape in shapes])
        self.vector, self.gradient = np.zeros((2, ends[-1]), np.float32)
        self.w1, self.b1, self.w2, self.b2 = (
            part.reshape(shape)
            for part, shape in zip(np.split(self.vector, ends[:-1]), shapes, strict=True)
        )
        for weight in (self.w1, self.w2):
            weight[:] = rng.normal(0, np.sqrt(2 / len(weight)), weight.shape)

    def forward(self, x):
        """Return the hidden layer's values, and the probability of each digit."""
        hidden = np.maximum(x @ self.w1 + self.b1, 0)
        logits = hidden @ self.w2 + self.b2
        exponents = np.exp(logits - logits.max(1, keepdims=True))
        return hidden, exponents / exponents.sum(1, keepdims=True)

    def backward(self, x, y):
        """Write the gradient of the mean loss, and return that loss."""
        hidden, probability = self.forward(x)
        rows = np.arange(len(y))
        loss = -np.log(probability[rows, y] + 1e-9).mean()
        probability[rows, y] -= 1
        output = probability / len(y)
        before = (output @ self.w2.T) * (hidden > 0)
        parts = (x.T @ before, before.sum(0), hidden.T @ output, output.sum(0))
        np.concatenate([part.ravel() for part in parts], out=self.gradient)
        return loss


class Adam:
    """Adam, for one vector."""

    def __init__(self, size, rate):
        self.rate, self.step = rate, 0
        self.mean, self.square = np.zeros((2, size), np.float32)

    def update(self, vector, gradient):
        """Change the vector by its gradient."""
        self.step += 1
        self.mean += 0.1 * (gradient - self.mean)
        self.square += 0.001 * (gradient**2 - self.square)
        scale = np.sqrt(1 - 0.999**self.step) / (1 - 0.9**self.step)
        vector -= self.rate * scale * self.mean / (np.sqrt(self.square) + 1e-8)


def main():
    """Train on all ranks; rank 0 prints."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--epoch", type=int, default=10)
    parser.add_argument("--batchsize", type=int, default=16, help="images a step and rank")
    parser.add_argument("--out", help="not used: this script saves nothing")
    args = parser.parse_args()

    images, labels = digits()
    images = images.reshape(len(images), -1)
    test_images, test_labels = images[TRAINING:], labels[TRAINING:]
    net = Perceptron(images.shape[1], 10, np.random.default_rng(0))
    adam = Adam(len(net.vector), 0.003)
    steps = TRAINING // (args.batchsize * comm.size)
    for epoch in range(args.epoch):
        order = np.random.default_rng(epoch).permutation(TRAINING)
        mine = order[comm.rank :: comm.size]
        for step in range(steps):
            batch = mine[step * args.batchsize : (step + 1) * args.batchsize]
            loss = net.backward(images[batch], labels[batch])
            comm.Allreduce(MPI.IN_PLACE, net.gradient)
            adam.update(net.vector, net.gradient / comm.size)
            workbench.report(loss=loss, total=args.epoch * steps, epoch=epoch + step / steps)
        reached = (net.forward(test_images)[1].argmax(1) == test_labels).mean()
        workbench.report(accuracy=reached, iteration=(epoch + 1) * steps, epoch=epoch + 1)
        if comm.rank == 0:
            print(f"epoch {epoch + 1}: loss {loss:.3f}, accuracy {reached:.3f}")


if __name__ == "__main__":
    main()
