"""Emulate a node of the rehearsal on a rank: its host name and its slow links.

The nodes of a rehearsal share a machine, so their ranks communicate over its loopback. On request
(``SO_MAX_PACING_RATE``) Linux paces a TCP connection, without special rights. So a slow link is one
on which bytes are late, for measurements and exchanges alike.
"""

from __future__ import annotations

import contextlib
import os
import socket
import zlib
from collections.abc import Iterable, Iterator

import numpy
from mpi4py import MPI

from workbench.core.world.world import LINK_VARIABLE, NODE_VARIABLE

# Linux's constant, for Pythons without it.
_PACING = getattr(socket, "SO_MAX_PACING_RATE", 47)
# That the option takes: 17 Gbit/s, more than the loopback of a few cores carries.
_FASTEST = 2**31 - 1
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
    """Limit the rate at which this rank sends to other simulated nodes; collective over ``world``.

    Returns:
        Number of connections with a limit from now on; 0 if no link is slow.
    """
    bandwidth = int(os.environ.get(LINK_VARIABLE, "0") or 0)
    if not bandwidth or world.size == 1:
        return 0
    _meet(world)
    name = os.environ.get(NODE_VARIABLE, "")
    gathered = world.allgather((name, [here for _, here, _ in _connections()]))
    nodes = {end: node for node, ends in gathered for end in ends}
    paced = 0
    for number, _, there in _connections():
        if nodes.get(there, name) != name:
            with socket.socket(fileno=os.dup(number)) as connection:
                _pace(connection, bandwidth)
            paced += 1
    return paced


def pace_connections(comm: MPI.Intracomm, connections: Iterable[socket.socket]) -> None:
    """Limit the rate of connections to the next rank, where its node is another; collective."""
    bandwidth = int(os.environ.get(LINK_VARIABLE, "0") or 0)
    if not bandwidth:
        return
    nodes = comm.allgather(os.environ.get(NODE_VARIABLE, ""))
    if nodes[(comm.rank + 1) % comm.size] != nodes[comm.rank]:
        for connection in connections:
            _pace(connection, bandwidth)


def _pace(connection: socket.socket, bandwidth: int) -> None:
    connection.setsockopt(socket.SOL_SOCKET, _PACING, min(bandwidth, _FASTEST))


def _meet(world: MPI.Intracomm) -> None:
    """Exchange a byte with every rank: MPI connects two ranks at their first message."""
    mine, theirs = numpy.zeros(1, "u1"), numpy.zeros(1, "u1")
    for step in range(1, world.size):
        to, source = (world.rank + step) % world.size, (world.rank - step) % world.size
        world.Sendrecv(mine, to, 0, theirs, source, 0)


def _connections() -> Iterator[tuple[int, _End, _End]]:
    """Yield each of this process's TCP connections: its descriptor, its own end, and the peer."""
    for entry in os.listdir("/proc/self/fd"):
        with contextlib.suppress(OSError):
            if not os.readlink(f"/proc/self/fd/{entry}").startswith("socket:"):
                continue
            with socket.socket(fileno=os.dup(int(entry))) as found:
                if found.family == socket.AF_INET and found.type == socket.SOCK_STREAM:
                    yield int(entry), found.getsockname(), found.getpeername()
