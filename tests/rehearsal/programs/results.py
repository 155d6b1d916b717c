"""Print what is in the data folder, report losses, and write snapshots and a model as results."""

import os
import socket
from pathlib import Path

from mpi4py import MPI

import workbench

rank = MPI.COMM_WORLD.rank
data, output = Path(os.environ["WORKBENCH_DATA"]), Path(os.environ["WORKBENCH_OUTPUT"])
print(socket.gethostname(), (data / "unpacked").read_text().strip())
for i in range(10):
    workbench.report(loss=1 / (i + 1), total=10)
(output / "snapshots").mkdir(exist_ok=True)
(output / "snapshots" / f"rank-{rank}").write_bytes(b"x" * 100_000)
(output / "model").write_text(f"of rank {rank}")
