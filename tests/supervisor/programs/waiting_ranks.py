"""A loop whose ranks wait for long: for a rank that computes, for a transfer, and then for good."""

from __future__ import annotations

import socket
import threading
import time
from pathlib import Path

import numpy as np
from mpi4py import MPI

import workbench

SECONDS = globals().get("seconds", 0.0)
FOR_GOOD = Path(globals().get("folder", ".")) / "waited-for-good"
COMPUTE, TRANSFER, NOTHING = 12, 13, 14
comm = MPI.COMM_WORLD
has_waited = FOR_GOOD.exists()  # in the attempt before
first, other = not comm.rank, (comm.rank + 1) % comm.size


def transfer() -> None:
    """Send over the loopback interface for a while, and then what both ranks wait for."""
    end = time.monotonic() + SECONDS
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
        while time.monotonic() < end:
            sender.sendto(bytes(20_000), ("127.0.0.1", 9))
            time.sleep(0.01)
    comm.send(None, dest=other, tag=TRANSFER)


for step in workbench.elastic({"w": np.zeros(4)}, steps=30):
    at = int(step)
    if has_waited:
        pass
    elif at == COMPUTE and first:
        time.sleep(SECONDS)
        comm.send(None, dest=other, tag=COMPUTE)
    elif at == COMPUTE:
        comm.recv(source=0, tag=COMPUTE)
    elif at == TRANSFER:
        threading.Thread(target=transfer).start()
        comm.recv(source=other, tag=TRANSFER)
    elif at == NOTHING:
        comm.barrier()
        FOR_GOOD.touch()
        comm.recv(source=other, tag=NOTHING)
    comm.barrier()
    workbench.report(loss=float(at))
    time.sleep(0.05)
