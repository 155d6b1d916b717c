"""Exchange on simulated nodes, and note which communicators are created during exchanges."""

from __future__ import annotations

import os
from contextlib import ExitStack
from typing import Any
from unittest.mock import patch

import numpy

from tests.engine.programs.world import found, rank, worlds, write_found
from workbench.core.performance.exchange_model import Codec
from workbench.core.world.world import NODE_VARIABLE
from workbench.engine.exchange.bucket_exchange import BucketExchange, HostBucket
from workbench.engine.exchange.exchange_options import ExchangeOptions
from workbench.engine.timing.mpi_calls import CREATORS, WatchedComm

PASSES, BUCKETS, LENGTH = 9, 3, 256

os.environ[NODE_VARIABLE] = f"node{rank}"
comm = worlds.offer(0)
created: list[str] = []


def noting(name: str) -> Any:
    original = getattr(WatchedComm, name)

    def create(*arguments: Any, **named: Any) -> Any:
        created.append(name)
        return original(*arguments, **named)

    return patch.object(WatchedComm, name, create)


with ExitStack() as noted:
    for name in CREATORS:
        noted.enter_context(noting(name))
    exchange = BucketExchange(comm, ExchangeOptions(None, Codec.NONE, False, "--communicator"))
    found["before"] = [*created]
    for _ in range(PASSES):
        for number in range(BUCKETS):
            flat = numpy.ones(LENGTH * LENGTH, "f4")
            bucket = HostBucket([f"weight {number}"], [(LENGTH, LENGTH)], flat)
            exchange.take(bucket, is_first=not number, is_last=number == BUCKETS - 1)
found["overlaps"], found["met"] = exchange.overlaps, exchange._meetings.comm is not None
found["during"] = created[len(found["before"]) :]
write_found()
