"""Sockets of our own to each neighbour in a ring; several, for links with a limit per connection.

MPI opens one connection between two ranks. EC2 limits one to 5 or 10 Gbit/s, whatever the node
sustains. MPICH has no setting for more; Open MPI's ``btl_tcp_links`` has, but with it 5.0.11
sometimes hangs when two ranks connect at the same time. So we open our own.
"""

from __future__ import annotations

import contextlib
import hmac
import ipaddress
import os
import secrets
import selectors
import socket
import threading
import time
import weakref
from queue import SimpleQueue
from typing import Any, NoReturn, TypeVar

import psutil
from mpi4py import MPI

from workbench.core.fleet.connection_limits import NETWORK_VARIABLE, SOCKETS_VARIABLE
from workbench.engine.exchange.transport import Array
from workbench.errors import MachineError

OPEN_SECONDS = 10.0
# MPI detects a lost rank, too, with a better message; it has this long for that.
LOST_SECONDS = 5.0
_TOKEN_BYTES = 16
_TAG = 99
# Also for other connections: a full queue would keep the previous rank waiting.
_BACKLOG = 128


class Passing:
    """One message in transit, with the part of MPI's request that ``Transport.settle`` uses."""

    def __init__(self, lanes: Lanes, message: Array) -> None:
        self._lanes = lanes
        self.message = memoryview(message).cast("B")
        self.error: OSError | None = None
        self.done = False

    def Test(self) -> bool:  # noqa: N802  # as mpi4py's
        """Return whether it has been transferred.

        Raises:
            MachineError: The neighbour is gone.
        """
        if self.error is not None:
            self._lanes.lost(self.error)
        if not self.done:
            self._lanes.look()
        return self.done

    def Wait(self) -> None:  # noqa: N802  # as mpi4py's
        """Wait until it has been transferred."""
        while not self.Test():
            time.sleep(1e-4)


_Queue = SimpleQueue[Passing | None]


class Neighbours:
    """Sockets to the next rank of ``comm`` and from the previous one."""

    def __init__(
        self, comm: MPI.Intracomm, right: list[socket.socket], left: list[socket.socket]
    ) -> None:
        self._comm = comm
        self.count = len(right)
        self._right, self._left = right, left
        self._queues: list[_Queue] = []
        self.close = weakref.finalize(self, _close, self._queues, right + left)
        _opened.add(self)

    @property
    def first(self) -> tuple[socket.socket, socket.socket]:
        """The first socket to the next rank and from the previous one."""
        return self._right[0], self._left[0]

    def look(self) -> None:
        """Raise MPI's error if the ranks were revoked, or one is lost."""
        try:
            self._comm.Iprobe(MPI.ANY_SOURCE, _TAG)
        except MPI.Exception:
            self.close()
            raise

    def lost(self, error: OSError) -> NoReturn:
        """Raise MPI's error about a lost neighbour, or else our own."""
        deadline = time.monotonic() + LOST_SECONDS
        while time.monotonic() < deadline:
            self.look()
            time.sleep(0.01)
        raise MachineError(
            f"A connection of rank {self._comm.rank} to a neighbour broke ({error})",
            "check whether that rank's node is still up.",
        ) from error


_opened: weakref.WeakSet[Neighbours] = weakref.WeakSet()
_Kind = TypeVar("_Kind", bound=Neighbours)


class Lanes(Neighbours):
    """Several sockets, with a thread for each; messages stay in order.

    Message ``k`` uses socket ``k`` modulo their number, so that both sides know where it is.
    """

    def __init__(
        self, comm: MPI.Intracomm, right: list[socket.socket], left: list[socket.socket]
    ) -> None:
        super().__init__(comm, right, left)
        self._going: list[_Queue] = [SimpleQueue() for _ in right]
        self._coming: list[_Queue] = [SimpleQueue() for _ in left]
        self._queues += self._going + self._coming
        self._sent = self._received = 0
        for way, queues, sockets in ((_send, self._going, right), (_receive, self._coming, left)):
            for queue, one in zip(queues, sockets, strict=True):
                threading.Thread(
                    target=_work, args=(way, one, queue), name="workbench-lane", daemon=True
                ).start()

    def send(self, message: Array) -> Passing:
        """Start to send a contiguous array to the next rank; it must not change meanwhile."""
        passing = Passing(self, message)
        self._going[self._sent % self.count].put(passing)
        self._sent += 1
        return passing

    def receive(self, room: Array) -> Passing:
        """Start to receive the previous rank's next message, of the same size."""
        passing = Passing(self, room)
        self._coming[self._received % self.count].put(passing)
        self._received += 1
        return passing


def wished_sockets() -> int:
    """Return the number of sockets to each neighbour, as configured."""
    return int(os.environ.get(SOCKETS_VARIABLE, "1") or 1)


def open_lanes(comm: MPI.Intracomm, count: int) -> Lanes | None:
    """Open ``count`` sockets from each rank to the next, with their threads; collective.

    Returns:
        None on all ranks if one cannot: then MPI's own connection is used by all.
    """
    return open_neighbours(comm, count, Lanes)


def open_neighbours(comm: MPI.Intracomm, count: int, kind: type[_Kind]) -> _Kind | None:
    """Open ``count`` sockets from each rank to the next; collective.

    Returns:
        None on all ranks if one cannot.
    """
    if comm.size == 1:
        return None
    for former in [*_opened]:  # look() closes those of a stopped run
        with contextlib.suppress(MPI.Exception):
            if former.close.alive:
                former.look()
    with contextlib.ExitStack() as made:
        listener = _listener()
        if listener is not None:
            made.enter_context(listener)
        mine = ("", 0) if listener is None else listener.getsockname()[:2]
        endpoints = comm.allgather((mine, secrets.token_bytes(_TOKEN_BYTES)))
        (place, token), own = endpoints[(comm.rank + 1) % comm.size], endpoints[comm.rank][1]
        right: list[socket.socket] = []
        left: list[socket.socket] = []
        if listener is not None and all(where[1] for where, _ in endpoints):
            deadline = time.monotonic() + OPEN_SECONDS
            with contextlib.suppress(OSError):
                for n in range(count):
                    one = made.enter_context(socket.create_connection(place, _until(deadline)))
                    one.sendall(token + bytes([n]))
                    right.append(_ready(one))
                left = [made.enter_context(o) for o in _accepted(listener, own, count, deadline)]
        if not comm.allreduce(len(left) == count, MPI.LAND):
            return None
        made.pop_all()
        if listener is not None:
            listener.close()
        return kind(comm, right, left)


def _listener() -> socket.socket | None:
    """Return a socket that listens on this node's address in the cluster's network."""
    with contextlib.suppress(ValueError, OSError):
        network = ipaddress.ip_network(os.environ.get(NETWORK_VARIABLE, ""))
        for addresses in psutil.net_if_addrs().values():
            for one in addresses:
                if one.family == socket.AF_INET and ipaddress.ip_address(one.address) in network:
                    return socket.create_server((one.address, 0), backlog=_BACKLOG)
    return None


def _accepted(
    listener: socket.socket, token: bytes, count: int, deadline: float
) -> list[socket.socket]:
    """Return the sockets of the previous rank, in its order; other connections are ignored."""
    found: dict[int, socket.socket] = {}
    with contextlib.ExitStack() as come, selectors.DefaultSelector() as waiting:
        waiting.register(listener, selectors.EVENT_READ)
        while len(found) < count:
            ready = waiting.select(_until(deadline))
            if time.monotonic() > deadline:
                raise TimeoutError
            for one in [key.fileobj for key, _ in ready]:
                assert isinstance(one, socket.socket)
                if one is listener:
                    one.settimeout(_until(deadline))
                    came = come.enter_context(one.accept()[0])
                    came.setblocking(False)
                    waiting.register(came, selectors.EVENT_READ)
                    continue
                waiting.unregister(one)
                greeting = _greeting(one)
                if hmac.compare_digest(greeting[:_TOKEN_BYTES], token) and greeting[_TOKEN_BYTES:]:
                    found[greeting[_TOKEN_BYTES]] = one
                else:
                    one.close()
        return [_ready(found[n].dup()) for n in sorted(found)]


def _greeting(one: socket.socket) -> bytes:
    """Return the first bytes; they are few enough to come at once."""
    try:
        return one.recv(_TOKEN_BYTES + 1)
    except OSError:
        return b""


def _until(deadline: float) -> float:
    return max(0.01, deadline - time.monotonic())


def _ready(made: socket.socket) -> socket.socket:
    made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    made.settimeout(None)
    return made


def _work(way: Any, one: socket.socket, queue: _Queue) -> None:
    """Transfer one message after the other; none after one that failed."""
    error: OSError | None = None
    while (passing := queue.get()) is not None:
        try:
            if error is None:
                way(one, passing.message)
        except OSError as failure:
            error = failure
        passing.error = error
        passing.done = error is None
        del passing  # its reference would keep the lanes alive until the next message


def _send(one: socket.socket, message: memoryview) -> None:
    one.sendall(message)


def _receive(one: socket.socket, room: memoryview) -> None:
    while room:
        count = one.recv_into(room, len(room), socket.MSG_WAITALL)
        if not count:
            raise ConnectionResetError("it was closed")
        room = room[count:]


def _close(queues: list[_Queue], sockets: list[socket.socket]) -> None:
    for one in sockets:
        with contextlib.suppress(OSError):
            one.shutdown(socket.SHUT_RDWR)
        one.close()
    for queue in queues:
        queue.put(None)
