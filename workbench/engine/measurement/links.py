"""Measure latency and bandwidth between two ranks, one direction at a time."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass
from statistics import median
from typing import Any

import numpy
from mpi4py import MPI

from workbench.engine.exchange.ring import Ring, count_sockets, open_ring
from workbench.engine.measurement.repetition import loops, repeat, settle

LATENCY_SECONDS = 0.15
BANDWIDTH_SECONDS = 1.2
# For each repetition: long enough that the burst of a switch is a small part of it.
WINDOW_SECONDS = 0.15
PIECE_BYTES = 2 << 20
_MOST_BYTES = 1 << 30
_TAG = 7
_AT_ONCE = 8


@dataclass(frozen=True)
class MeasuredLink:
    """The link from one rank to another: seconds one way, and bytes per second of all sockets."""

    latency: float
    bandwidth: float
    sockets: int = 1


def measure_pair(pair: MPI.Comm) -> MeasuredLink:
    """Return the link from rank 0 to rank 1 of a communicator of two; collective."""
    latency = measure_latency(pair)
    ring = open_ring(MPI.Intracomm(pair), range(pair.size)) if count_sockets() > 1 else None
    found = MeasuredLink(latency, _bandwidth(pair, ring), 1 if ring is None else ring.sockets)
    if ring is not None:
        ring.close()
    return pair.bcast(found)  # type: ignore[no-any-return]  # objects


def measure_latency(pair: MPI.Comm) -> float:
    """Return the seconds of an empty message, one way: half of a round trip."""
    message = numpy.zeros(1, numpy.uint8)
    once = min(_there_and_back(pair, message, 5) for _ in range(4))
    count = pair.bcast(loops(once, LATENCY_SECONDS / 10))
    took = repeat(pair, lambda: _there_and_back(pair, message, count), LATENCY_SECONDS)
    return median(took) / 2


def _there_and_back(pair: MPI.Comm, message: Any, count: int) -> float:
    begun = time.perf_counter()
    for _ in range(count):
        if pair.rank == 0:
            pair.Send(message, 1, _TAG)
            pair.Recv(message, 1, _TAG)
        else:
            pair.Recv(message, 0, _TAG)
            pair.Send(message, 0, _TAG)
    return (time.perf_counter() - begun) / count


def _bandwidth(pair: MPI.Comm, ring: Ring | None) -> float:
    count = 1 if ring is None else ring.sockets
    nbytes = PIECE_BYTES // count
    piece = numpy.zeros(nbytes, numpy.uint8)
    rooms = [piece] if pair.rank == 0 else [numpy.zeros_like(piece) for _ in range(_AT_ONCE)]
    pieces = count  # at least one for each socket
    while (took := pair.bcast(_send(pair, ring, rooms, pieces))) < WINDOW_SECONDS:
        if pieces * nbytes >= _MOST_BYTES:
            break
        pieces *= max(2, min(16, math.ceil(WINDOW_SECONDS / max(took, 1e-6))))
    spent = repeat(pair, lambda: _send(pair, ring, rooms, pieces), BANDWIDTH_SECONDS)
    return pieces * nbytes / median(spent)


def _send(pair: MPI.Comm, ring: Ring | None, rooms: list[Any], pieces: int) -> float:
    """Send pieces, a few at once, and wait for the confirmation that all have arrived."""
    word = numpy.zeros(1, numpy.uint8)
    begun = time.perf_counter()
    going: list[Any] = []
    if ring is not None:
        move = ring.send if pair.rank == 0 else ring.receive
        move(rooms[0], pieces // ring.sockets)
        pieces = 0
    for number in range(pieces):
        if len(going) == _AT_ONCE:
            settle(going.pop(0))
        go = pair.Isend if pair.rank == 0 else pair.Irecv
        going.append(go(rooms[number % len(rooms)], 1 - pair.rank, _TAG))
    for request in going:
        settle(request)
    if pair.rank == 0:
        settle(pair.Irecv(word, 1, _TAG))
    else:
        settle(pair.Isend(word, 0, _TAG))
    return time.perf_counter() - begun
