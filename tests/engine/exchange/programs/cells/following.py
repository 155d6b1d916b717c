"""The cell after one that was stopped: means over sockets are right."""

import os

import numpy as np
from mpi4py import MPI

import workbench

rank = MPI.COMM_WORLD.rank
comm = workbench.create_communicator("ring", overlap=os.environ["OVERLAP"] == "1")
assert comm.reducer.sockets == int(os.environ["WORKBENCH_SOCKETS"])
for _, mean in comm.mean(["/a"], [np.full(300_000, rank + 1.0, "f4")], [(300_000,)]):
    assert (mean == 1.5).all()
