"""A loop that is written by hand and takes some seconds, as a user would write it."""

from __future__ import annotations

import time

import numpy as np
from mpi4py import MPI

import workbench

SLOW_RANKS = globals().get("slow_ranks", 0)
comm = MPI.COMM_WORLD
x = np.random.RandomState(0).rand(60, 4)
y = x.sum(axis=1)
w = np.zeros(4)
visited: list[int] = []
state = {"w": w, "visited": visited}
batches = workbench.GlobalBatches(len(x), 16, seed=1)
for step in workbench.elastic(state, data=batches, epochs=20):
    error = x[step.batch] @ w - y[step.batch]
    gradient = 2 * x[step.batch].T @ error / len(error) * step.weight
    comm.Allreduce(MPI.IN_PLACE, gradient)
    w -= 0.1 * gradient / comm.size
    loss = comm.allreduce(float(np.mean(error**2)) * step.weight) / comm.size
    workbench.report(loss=loss)
    time.sleep(0.15 if comm.size == SLOW_RANKS else 0.0)
print("steps", int(step) + 1, "ranks", comm.size)
