"""A cell that averages gradients over sockets, to which rank 1 does not come."""

import os
import time

import numpy as np
from mpi4py import MPI

import workbench

rank = MPI.COMM_WORLD.rank
comm = workbench.create_communicator("ring", overlap=os.environ["OVERLAP"] == "1")
if rank == 1:
    time.sleep(60)
for _ in comm.mean(["/a"], [np.ones(4_000_000, "f4")], [(4_000_000,)]):
    pass
