"""Make every two ranks a simulated node, and time messages within and between: ``… [times]``."""

from __future__ import annotations

import os
import time

import numpy

from tests.engine.programs.world import arguments, found, rank, real, write_found
from workbench.core.world.world import NODE_VARIABLE
from workbench.engine.measurement.node_emulation import node_of, slow_links

os.environ[NODE_VARIABLE] = f"r-{rank // 2}"
found["node"] = node_of(real).allgather(rank)
found["paced"] = slow_links(real)
sent, came = numpy.ones(2_000_000, "u1"), numpy.empty(2_000_000, "u1")


def seconds(other: int) -> float:
    real.Barrier()
    start = time.perf_counter()
    real.Sendrecv(sent, other, recvbuf=came, source=other)
    return time.perf_counter() - start


if "times" in arguments:
    found["within"] = min(seconds(rank ^ 1) for _ in range(3))
    found["between"] = min(seconds(rank ^ 2) for _ in range(3))

write_found()
