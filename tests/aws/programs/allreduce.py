"""Time allreduces of 1 MB, and print how many ranks on how many hosts there are."""

import socket
import time

import numpy as np
from mpi4py import MPI

import workbench

world = MPI.COMM_WORLD
hosts = world.allgather(socket.gethostname())
weights = np.ones(250_000, dtype=np.float32)
total = np.empty_like(weights)
begun = time.perf_counter()
for i in range(1, 21):
    world.Allreduce(weights, total)
    workbench.report(loss=1 / i, total=20)
if world.rank == 0:
    assert total[0] == world.size, total[0]
    seconds = (time.perf_counter() - begun) / 20
    print(f"ranks={world.size} hosts={len(set(hosts))} allreduce_of_1_MB={seconds * 1e3:.2f}ms")
