"""Exchange much before a training, as data is handed out, and count the meetings of its steps."""

from __future__ import annotations

import time

import numpy as np
from mpi4py import MPI

from tests.engine.programs.stepping import comm, train
from tests.engine.programs.world import found, write_found

gradients = np.ones(10, np.float32)
for _ in range(2000):
    comm.Allreduce(MPI.IN_PLACE, gradients)
before = comm._meetings._met


def step() -> None:
    time.sleep(0.002)
    comm.Allreduce(MPI.IN_PLACE, gradients)


# The meeting that was agreed on before is at call 8,000 at the latest.
found.update(train(3000, step))
found["met"] = comm._meetings._met - before

write_found()
