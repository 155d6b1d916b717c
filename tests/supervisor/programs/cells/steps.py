"""A cell of as many steps as STEPS says, with an exchange and a report in each."""

import os
import time

from mpi4py import MPI

import workbench

comm = MPI.COMM_WORLD
for step in range(1, int(os.environ["STEPS"]) + 1):
    time.sleep(0.05)
    workbench.report(total=comm.allreduce(step))
