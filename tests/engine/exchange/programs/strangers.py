"""Open sockets while strangers come to them, use them, and open and leave more in other sizes."""

from __future__ import annotations

import gc
import socket
import threading
import time
from typing import Any
from unittest.mock import patch

import numpy as np
import psutil

from tests.engine.exchange.programs.nodes import be_a_node
from tests.engine.programs.world import found, rank, size, worlds, write_found
from workbench.engine.exchange import parallel_sockets

GREETINGS = (b"", b"", b"GET /", bytes(16) + b"\x00", b"\xff" * 4096, None)
GRACE_SECONDS = 5.0
be_a_node(rank)
comm = worlds.offer(0)
me = psutil.Process()
strangers: list[socket.socket] = []
places: list[list[Any]] = []


def listening() -> int:
    return len([c for c in me.net_connections("tcp") if c.status == psutil.CONN_LISTEN])


def come(place: tuple[str, int]) -> None:
    """Come to a listening socket as strangers do."""
    places.append([*place])
    for greeting in GREETINGS:
        came = socket.create_connection(place)
        strangers.append(came)
        if greeting:
            came.sendall(greeting)
        if greeting is None:  # it hangs up without a word, and by a reset
            came.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, bytes([1, 0, 0, 0] + [0] * 4))
            came.close()
    strangers[1].shutdown(socket.SHUT_WR)


def open_among_strangers() -> Any:
    """Open sockets to which strangers come as one listens, before the other ranks know where."""
    listen = socket.socket.listen

    def listen_among_strangers(self: socket.socket, *arguments: int) -> None:
        listen(self, *arguments)
        come(self.getsockname())

    with patch.object(socket.socket, "listen", listen_among_strangers):
        began = time.monotonic()
        opened = parallel_sockets.open_lanes(comm, 3)
        found["took"] = time.monotonic() - began
    found["opened"] = opened is not None
    return opened


def is_right(opened: Any) -> bool:
    """Whether a message goes around."""
    room = np.zeros(1_000_000, "u1")
    coming = opened.receive(room)
    opened.send(np.full(1_000_000, rank, "u1")).Wait()
    coming.Wait()
    return bool((room == (rank - 1) % size).all())


def received(stranger: socket.socket) -> int:
    """Return how many bytes a stranger gets."""
    stranger.settimeout(GRACE_SECONDS)
    try:
        return len(stranger.recv(1))
    except ConnectionError:
        return 0


def handles() -> list[int]:
    """Count the open files and threads, once those of sockets have ended."""
    gc.collect()
    deadline = time.monotonic() + GRACE_SECONDS
    while any(t.name == "workbench-lane" for t in threading.enumerate()):
        if time.monotonic() > deadline:
            break
        time.sleep(0.01)
    return [me.num_fds(), threading.active_count()]


before = listening()
opened = open_among_strangers()
found["places"], found["listening"] = places, listening() - before
if opened is not None:
    found["right"] = is_right(opened)
found["strangers got"] = [received(stranger) for stranger in strangers[:-1]]
del opened
comm.Barrier()
counts = []
for turn in range(4):
    for ranks in (2, 3):
        part: Any = comm.Split(0 if rank < ranks else 1, rank)
        opened = parallel_sockets.open_lanes(part, 3)
        found[f"{turn} {ranks}"] = None if opened is None else opened.count
        if opened is not None and turn % 2:
            opened.close()
        del opened
        comm.Barrier()
    counts.append(handles())
found["counts"] = counts

write_found()
