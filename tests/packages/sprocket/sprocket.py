"""A made-up framework, which fits a line by steps and knows nothing of workbench."""

from __future__ import annotations

import time
from collections.abc import Iterator

import numpy
from mpi4py import MPI


class Line:
    """A slope and a height.

    Args:
        slope: Where it begins.
    """

    def __init__(self, slope: float = 0.0) -> None:
        self.numbers = numpy.array([slope, 0.0])

    def gradient(self, x: numpy.ndarray, y: numpy.ndarray) -> tuple[float, numpy.ndarray]:
        """Return the loss and its gradient."""
        error = self.numbers[0] * x + self.numbers[1] - y
        return float((error**2).mean()), numpy.array([(error * x).mean(), error.mean()]) * 2


class Feed:
    """Gives a rank its points, in batches, epoch after epoch.

    Args:
        size: Points of a batch.
        seconds: That a batch takes.
    """

    def __init__(self, size: int = 5, seconds: float = 0.0) -> None:
        numbers = numpy.random.RandomState(MPI.COMM_WORLD.rank)
        self.x = numbers.rand(40)
        self.y = 3 * self.x + 1
        self.size, self.seconds = size, seconds
        self.given = 0

    @property
    def length(self) -> int:
        """Batches of an epoch."""
        return len(self.x) // self.size

    def __iter__(self) -> Iterator[tuple[numpy.ndarray, numpy.ndarray]]:
        return self

    def __next__(self) -> tuple[numpy.ndarray, numpy.ndarray]:
        time.sleep(self.seconds)
        begin = self.given % self.length * self.size
        self.given += 1
        return self.x[begin : begin + self.size], self.y[begin : begin + self.size]


class Trainer:
    """Trains a line on the points of all ranks.

    Args:
        rate: The learning rate.
    """

    def __init__(self, line: Line, feed: Feed, rate: float = 0.1) -> None:
        self.line, self.feed, self.rate = line, feed, rate
        self.done = 0

    def step(self) -> float:
        """Do one step, and return its loss."""
        loss, gradient = self.line.gradient(*next(self.feed))
        MPI.COMM_WORLD.Allreduce(MPI.IN_PLACE, gradient)
        self.line.numbers -= self.rate * gradient / MPI.COMM_WORLD.size
        self.done += 1
        return loss

    def fit(self, steps: int) -> None:
        """Train until so many steps are done."""
        while self.done < steps:
            self.step()
