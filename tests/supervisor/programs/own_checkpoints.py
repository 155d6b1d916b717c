"""A loop with checkpoints of its own, as torchrun's users write it."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

import numpy as np
from mpi4py import MPI

import workbench

OWN, STEPS, PAUSE = Path(sys.argv[1]), 30, float(sys.argv[2])
comm = MPI.COMM_WORLD
x = np.random.RandomState(0).rand(60, 4)
y = x.sum(axis=1)
done, w = 0, np.zeros(4)
if OWN.exists():
    with np.load(OWN) as saved:
        done, w = int(saved["done"]), saved["w"]
done, w = comm.bcast((done, w))
for step in range(done + 1, STEPS + 1):
    error = x[comm.rank :: comm.size] @ w - y[comm.rank :: comm.size]
    gradient = 2 * x[comm.rank :: comm.size].T @ error
    comm.Allreduce(MPI.IN_PLACE, gradient)
    w = w - 0.1 * gradient / len(x)
    loss = comm.allreduce(float(error @ error)) / len(x)
    workbench.report(iteration=step, loss=loss)
    if comm.rank == 0 and step % 5 == 0:
        scratch = OWN.with_suffix(".new.npz")
        np.savez(scratch, done=step, w=w)
        scratch.replace(OWN)
    time.sleep(PAUSE)
print("restarts", os.environ.get("TORCHELASTIC_RESTART_COUNT"), "ranks", comm.size)
