"""A cell that reports and prints as often as POINTS says, and adds to the file BEATS each time."""

import os
import time
from pathlib import Path

from mpi4py import MPI

import workbench

for i in range(int(os.environ["POINTS"])):
    workbench.report(loss=i)
    print("line", i)
    if MPI.COMM_WORLD.rank == 0:
        with Path(os.environ["BEATS"]).open("a") as beats:
            beats.write("x")
    time.sleep(0.05)
