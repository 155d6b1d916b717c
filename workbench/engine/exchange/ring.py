"""A ring over sockets of our own to each neighbour, in one call of C.

Every rank sends 2(n−1)/n of the bytes, and no algorithm sends less: Patarasuk and Yuan, "Bandwidth
optimal all-reduce algorithms for clusters of workstations" (2009). MPI copies what it receives, and
opens one connection between two ranks, which EC2 limits to 5 or 10 Gbit/s whatever the node
sustains. MPICH has no setting for more; Open MPI's ``btl_tcp_links`` has, but with it 5.0.11
sometimes hangs when two ranks connect at the same time. So we open our own. Where this is not
compiled, or a rank does not reach its neighbour, MPI's own allreduce is used.
"""

from __future__ import annotations

import contextlib
import hmac
import ipaddress
import os
import secrets
import selectors
import socket
import time
import weakref
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import NoReturn

import numpy
import psutil
from mpi4py import MPI

from workbench.core.fleet.connection_limits import NETWORK_VARIABLE, SOCKETS_VARIABLE
from workbench.engine.compiled_modules import require_current
from workbench.engine.exchange.nonfinite import NonfiniteFindings
from workbench.engine.exchange.transport import Array, ArraySlice, views
from workbench.engine.measurement.node_emulation import pace_connections
from workbench.errors import MachineError

try:
    from workbench.engine.exchange import ring_kernels

    require_current(ring_kernels)
except ImportError:  # built without a C compiler, for another system, or for another Python
    ring_kernels = None  # type: ignore[assignment]  # who uses it asks first

OPEN_SECONDS = 10.0
# MPI detects a lost rank, too, with a better message; it has this long for that.
LOST_SECONDS = 5.0
SINGLE = numpy.dtype("f4")
_LOOPBACK = "127.0.0.0/8"
_TOKEN_BYTES = 16
_TAG = 99
# Also for other connections: a full queue would keep the previous rank waiting.
_BACKLOG = 128


class Ring:
    """The sockets of one rank to the next and from the previous one, and sums that go round.

    Args:
        comm: Neighbours by rank are neighbours on the ring.
        right: As many sockets as ``left``.
        ranks: The numbers in findings of the ranks of ``comm``.
    """

    def __init__(
        self,
        comm: MPI.Intracomm,
        right: Sequence[socket.socket],
        left: Sequence[socket.socket],
        ranks: Sequence[int],
    ) -> None:
        self._comm, self._ranks = comm, ranks
        self.size, self.sockets = comm.size, len(right)
        self._right, self._left = tuple(right), tuple(left)
        self.close = weakref.finalize(self, _close, self._right + self._left)
        _opened.add(self)

    def mean(
        self,
        arrays: Sequence[Array],
        parts: Sequence[Sequence[ArraySlice]],
        factor: float,
        findings: NonfiniteFindings | None,
    ) -> None:
        """Replace the ``parts`` of flat arrays by ``factor`` times their sum over the ranks.

        Args:
            arrays: Of single precision.
            parts: Each rank's pieces, of the same sizes on all ranks.
            findings: Receives the non-finite numbers; None for no check.

        Raises:
            MachineError: A neighbour is gone.
        """
        rank, pieces = self._comm.rank, views(arrays, parts)
        try:
            found = ring_kernels.mean(self._right, self._left, pieces, rank, factor, self._look)
        except BaseException as error:
            self.close()  # what is left in them belongs to no other exchange
            if isinstance(error, OSError):
                self._lost(error)
            raise
        if findings is None:
            return
        for part, piece, was_finite in found:
            number = parts[part][piece].number
            if was_finite:  # what came from the previous rank
                findings.note(self._ranks[rank], number)
            elif (rank - part) % self.size == 1:  # later it is a sum of several ranks' numbers
                findings.note(self._ranks[rank - 1], number)

    def send(self, message: Array, times: int) -> None:
        """Send a message so often over each socket to the next rank, over all at once.

        Raises:
            MachineError: The neighbour is gone.
        """
        self._move(lambda one: one.sendall(message), self._right, times)

    def receive(self, room: Array, times: int) -> None:
        """Receive what the previous rank sends; all sockets write to the same room.

        Raises:
            MachineError: The neighbour is gone.
        """
        self._move(lambda one: _receive(one, memoryview(room)), self._left, times)

    def _move(
        self, move: Callable[[socket.socket], None], sockets: Sequence[socket.socket], times: int
    ) -> None:
        def repeat(one: socket.socket) -> None:
            for _ in range(times):
                move(one)

        try:
            with ThreadPoolExecutor(len(sockets)) as threads:
                list(threads.map(repeat, sockets))
        except OSError as error:
            self.close()
            self._lost(error)

    def _look(self) -> None:
        """Raise MPI's error if the ranks were revoked, or one is lost."""
        try:
            self._comm.Iprobe(MPI.ANY_SOURCE, _TAG)
        except MPI.Exception:
            self.close()
            raise

    def _lost(self, error: OSError) -> NoReturn:
        """Raise MPI's error about a lost neighbour, or else our own."""
        deadline = time.monotonic() + LOST_SECONDS
        while time.monotonic() < deadline:
            self._look()
            time.sleep(0.01)
        raise MachineError(
            f"A connection of rank {self._comm.rank} to a neighbour broke ({error})",
            "check whether that rank's node is still up.",
        ) from error


_opened: weakref.WeakSet[Ring] = weakref.WeakSet()


def open_ring(comm: MPI.Intracomm, ranks: Sequence[int]) -> Ring | None:
    """Open sockets from each rank of ``comm`` to the next, as many as are configured; collective.

    Args:
        ranks: The numbers in findings of the ranks of ``comm``.

    Returns:
        None on all ranks if one cannot.
    """
    count = comm.allreduce(0 if ring_kernels is None else count_sockets(), MPI.MIN)
    if comm.size == 1 or not count:
        return None
    for former in [*_opened]:  # those of a stopped run are closed
        with contextlib.suppress(MPI.Exception):
            if former.close.alive:
                former._look()
    with contextlib.ExitStack() as made:
        listener = _listener(comm)
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
                left = [made.enter_context(o) for o in _accept(listener, own, count, deadline)]
        if not comm.allreduce(len(left) == count, MPI.LAND):
            return None
        made.pop_all()
        if listener is not None:
            listener.close()
        pace_connections(comm, right)
        return Ring(comm, right, left, ranks)


def count_sockets() -> int:
    """Return the number of sockets to each neighbour, as configured."""
    return int(os.environ.get(SOCKETS_VARIABLE, "1") or 1)


def _listener(comm: MPI.Intracomm) -> socket.socket | None:
    """Return a socket that listens on this node's address in the cluster's network; collective."""
    is_one_machine = comm.Split_type(MPI.COMM_TYPE_SHARED).size == comm.size
    network = os.environ.get(NETWORK_VARIABLE) or (_LOOPBACK if is_one_machine else "")
    with contextlib.suppress(ValueError, OSError):
        wanted = ipaddress.ip_network(network)
        for addresses in psutil.net_if_addrs().values():
            for one in addresses:
                if one.family == socket.AF_INET and ipaddress.ip_address(one.address) in wanted:
                    return socket.create_server((one.address, 0), backlog=_BACKLOG)
    return None


def _accept(
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


def _receive(one: socket.socket, room: memoryview) -> None:
    while room:
        count = one.recv_into(room, len(room), socket.MSG_WAITALL)
        if not count:
            raise ConnectionResetError("it was closed")
        room = room[count:]


def _close(sockets: Sequence[socket.socket]) -> None:
    for one in sockets:
        with contextlib.suppress(OSError):
            one.shutdown(socket.SHUT_RDWR)
        one.close()
