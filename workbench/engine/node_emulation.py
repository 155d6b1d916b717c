"""Emulate a node of the rehearsal on a rank: its host name and its slow links.

A rehearsal's nodes share a machine, so their ranks speak over its loopback. Linux paces a TCP
connection by itself on request (``SO_MAX_PACING_RATE``), which needs no right: so a slow
link is one on which bytes are late, and whatever measures it, or sends over it, finds it so.
"""

from __future__ import annotations

import contextlib
import os
import socket
import zlib
from collections.abc import Iterator

import numpy
from mpi4py import MPI

from workbench.core.world.world import LINK_VARIABLE, NODE_VARIABLE

# Linux's number, where Python has no name for it.
_PACING = getattr(socket, "SO_MAX_PACING_RATE", 47)
_End = tuple[str, int]


def host_name() -> str:
    """Return the name of this process's node, simulated or not."""
    return os.environ.get(NODE_VARIABLE, "").partition("@")[0] or socket.gethostname()


def node_of(comm: MPI.Intracomm) -> MPI.Intracomm:
    """Return the ranks of ``comm`` that share this rank's node, simulated or not; collective."""
    name = os.environ.get(NODE_VARIABLE, "")
    if not comm.allreduce(bool(name), MPI.LAND):
        return MPI.Intracomm(comm.Split_type(MPI.COMM_TYPE_SHARED, comm.rank))
    return MPI.Intracomm(comm.Split(zlib.crc32(name.encode()) & 0x7FFFFFFF, comm.rank))


def slow_links(world: MPI.Intracomm) -> int:
    """Pace what this rank sends to other simulated nodes; collective over ``world``.

    Returns:
        Number of connections that are paced from now on; 0 where nothing is to be slow.
    """
    bandwidth = int(os.environ.get(LINK_VARIABLE, "0") or 0)
    if not bandwidth or world.size == 1:
        return 0
    _meet(world)
    name = os.environ.get(NODE_VARIABLE, "")
    told = world.allgather((name, [here for _, here, _ in _connections()]))
    nodes = {end: node for node, ends in told for end in ends}
    paced = 0
    for number, _, there in _connections():
        if nodes.get(there, name) != name:
            with socket.socket(fileno=os.dup(number)) as connection:
                connection.setsockopt(socket.SOL_SOCKET, _PACING, bandwidth)
            paced += 1
    return paced


def _meet(world: MPI.Intracomm) -> None:
    """Send everybody something: MPI connects two ranks when they first speak."""
    mine, theirs = numpy.zeros(1, "u1"), numpy.zeros(1, "u1")
    for step in range(1, world.size):
        to, source = (world.rank + step) % world.size, (world.rank - step) % world.size
        world.Sendrecv(mine, to, 0, theirs, source, 0)


def _connections() -> Iterator[tuple[int, _End, _End]]:
    """Give each of this process's TCP connections: its number, its own end, and the other one."""
    for entry in os.listdir("/proc/self/fd"):
        with contextlib.suppress(OSError):
            if not os.readlink(f"/proc/self/fd/{entry}").startswith("socket:"):
                continue
            with socket.socket(fileno=os.dup(int(entry))) as found:
                if found.family == socket.AF_INET and found.type == socket.SOCK_STREAM:
                    yield int(entry), found.getsockname(), found.getpeername()
