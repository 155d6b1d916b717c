"""Our own communicator between ranks: their placement, exchange thread, and pieces of buffers."""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from itertools import accumulate
from queue import SimpleQueue
from typing import Any, NamedTuple

from mpi4py import MPI

from workbench.engine.measurement.node_emulation import node_of

Array = Any
"""A NumPy array; shapes and types are documented where they matter."""

POLL_SECONDS = (3e-5, 2e-4)
"""The first and later pauses between two checks of a message. A rank that polls without pause takes
the core on which the system would move the message: a ring over 1.44 Gbit/s lost a third."""

EAGER_BYTES = 60 << 10
"""The size that every MPI sends without a handshake: on a slow link the receiver's answer would
wait behind the megabytes of the other direction, and the two directions would alternate."""

PIECES = 4
"""The least number of pieces of each rank's part: one is added while the next arrives."""

_EAGER_LIMIT = "OMPI_MCA_btl_tcp_eager_limit"
_HEADER_BYTES = 16 << 10

_SPINS = 20
_keyval = MPI.KEYVAL_INVALID


class Transport:
    """A private duplicate of a communicator, created once for each.

    It is created through ``comm`` itself, so that a revocation of ``comm`` covers it too.
    """

    def __init__(self, comm: MPI.Intracomm) -> None:
        own = comm.Dup()
        self.comm = _plain(own)
        self.rank: int = own.rank
        self.size: int = own.size
        node = node_of(own)
        self.node = _plain(node)
        self.local_rank: int = node.rank
        leaders: list[int] = own.allgather(node.bcast(self.rank))
        self.nodes = [
            [r for r in range(self.size) if leaders[r] == one] for one in sorted({*leaders})
        ]
        self.is_even = len({len(ranks) for ranks in self.nodes}) == 1
        self.across = _plain(own.Split(self.local_rank, self.rank)) if self.is_even else None
        # Created now: later the worker exchanges while a rank creates it, and others wait.
        self.meetings = _plain(own.Dup()) if self.size > 1 else self.comm
        limit = int(os.environ.get(_EAGER_LIMIT, "0")) - _HEADER_BYTES
        self.eager_bytes: int = own.allreduce(max(EAGER_BYTES, limit), MPI.MIN)
        self.may_thread = MPI.Query_thread() == MPI.THREAD_MULTIPLE
        self._worker: Worker | None = None
        self.kept: dict[str, Any] = {}
        """Values to keep for as long as the communicator lives."""

    @property
    def local_size(self) -> int:
        """Ranks on this node."""
        return int(self.node.size)

    @property
    def worker(self) -> Worker:
        """The thread that exchanges while the main thread computes."""
        if self._worker is None:
            self._worker = Worker()
        return self._worker

    def rest(self) -> None:
        """Wait until no exchange is pending; raise its error, if any."""
        if self._worker is not None:
            self._worker.wait()

    def largest(self, value: float) -> float:
        """Return the largest of all ranks' values; collective."""
        return float(self.comm.allreduce(value, MPI.MAX))

    def settle(self, request: Any) -> None:
        """Wait for a message."""
        if len(self.nodes) == 1:
            request.Wait()
            return
        for _ in range(_SPINS):
            if request.Test():
                return
        pause, longest = POLL_SECONDS
        while not request.Test():
            time.sleep(pause)
            pause = min(2 * pause, longest)

    def send(self, message: Array, to: int, tag: int) -> list[Any]:
        """Start to send a flat array of bytes, in pieces that need no handshake."""
        return [self.comm.Isend(piece, to, tag) for piece in self._pieces(message)]

    def receive(self, message: Array, source: int, tag: int) -> list[Any]:
        """Start to receive what `send` sends."""
        return [self.comm.Irecv(piece, source, tag) for piece in self._pieces(message)]

    def settle_all(self, requests: Iterable[Any]) -> None:
        """Wait for messages."""
        for request in requests:
            self.settle(request)

    def _pieces(self, message: Array) -> list[Array]:
        most = self.eager_bytes
        return [message[at : at + most] for at in range(0, len(message), most)]


def transport_of(comm: MPI.Intracomm) -> Transport:
    """Return the transport of ``comm``; the first call is collective."""
    global _keyval  # noqa: PLW0603  # MPI's own place for what belongs to a communicator
    if _keyval == MPI.KEYVAL_INVALID:
        _keyval = MPI.Comm.Create_keyval()
    with contextlib.suppress(MPI.Exception):
        found: Any = comm.Get_attr(_keyval)
        if isinstance(found, Transport):
            return found
    made = Transport(comm)
    comm.Set_attr(_keyval, made)
    return made


def _plain(comm: Any) -> MPI.Intracomm:
    """Return the same communicator without timed calls: an exchange is timed as a whole."""
    return MPI.Intracomm(comm)


class Worker:
    """Runs jobs one after the other; MPI makes progress in their blocking calls.

    There is one thread for all exchanges between the same ranks: they use the same connections and
    tags, so that two at a time would receive each other's messages.
    """

    def __init__(self) -> None:
        self._jobs: SimpleQueue[Callable[[], None]] = SimpleQueue()
        self._idle = threading.Condition()
        self._waiting = 0
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._work, name="workbench-exchange", daemon=True)
        self._thread.start()

    @property
    def is_here(self) -> bool:
        """Return whether the caller is one of its own jobs."""
        return threading.current_thread() is self._thread

    def submit(self, job: Callable[[], None]) -> None:
        """Run ``job`` after the jobs before it; after a failure no job runs."""
        with self._idle:
            self._waiting += 1
        self._jobs.put(job)

    def wait(self) -> None:
        """Wait until all jobs are done; raise the error of one. Does nothing inside of a job."""
        if self.is_here:
            return
        with self._idle:
            self._idle.wait_for(lambda: not self._waiting)
            error, self._error = self._error, None
        if error is not None:
            raise error

    def _work(self) -> None:
        while True:
            job = self._jobs.get()
            try:
                if self._error is None:
                    job()
            except BaseException as error:  # noqa: BLE001  # raised again in ``wait``
                self._error = error
            with self._idle:
                self._waiting -= 1
                self._idle.notify_all()


class ArraySlice(NamedTuple):
    """A run of elements of one array: ``arrays[number][start:stop]``."""

    number: int
    start: int
    stop: int


def cut(
    sizes: Sequence[int], parts: int, most: int, shares: Sequence[float] = ()
) -> list[list[ArraySlice]]:
    """Cut arrays, as one sequence of elements, into parts, each in pieces.

    Args:
        sizes: Elements of each array.
        most: Greatest number of elements of a piece.
        shares: Of the elements in each part; equal ones by default.
    """
    total = sum(sizes)
    borders = [total * part // parts for part in range(parts + 1)]
    if shares:
        ends = [round(total * end) for end in accumulate(shares)]
        borders = [0, *(min(total, end) for end in ends[:-1]), total]
    found: list[list[ArraySlice]] = [[] for _ in range(parts)]
    offset = part = 0
    for index, size in enumerate(sizes):
        start = 0
        while start < size:
            while borders[part + 1] <= offset + start:
                part += 1
            stop = min(size, start + most, borders[part + 1] - offset)
            found[part].append(ArraySlice(index, start, stop))
            start = stop
        offset += size
    return found


def views(arrays: Sequence[Array], parts: Sequence[Sequence[ArraySlice]]) -> list[list[Array]]:
    """Return a view of each piece; ``arrays`` are flat."""
    return [[arrays[p.number][p.start : p.stop] for p in part] for part in parts]
