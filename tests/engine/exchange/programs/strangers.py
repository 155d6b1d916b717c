"""Open sockets while strangers come to them, use them, and open and leave more in other sizes."""

from __future__ import annotations

import gc
import os
import socket
import threading
import time
from typing import Any
from unittest.mock import patch

import numpy as np
import psutil

from tests.engine.exchange.programs.nodes import be_a_node
from tests.engine.programs.world import found, rank, size, worlds, write_found
from workbench.core.fleet.connection_limits import SOCKETS_VARIABLE
from workbench.engine.exchange.ring import open_ring
from workbench.engine.exchange.transport import cut

GREETINGS = (b"", b"", b"GET /", bytes(16) + b"\x00", b"\xff" * 4096, None)
GRACE_SECONDS = 5.0
be_a_node(rank)
os.environ[SOCKETS_VARIABLE] = "3"
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
        opened = open_ring(comm, range(size))
        found["took"] = time.monotonic() - began
    found["opened"] = opened is not None
    return opened


def is_right(opened: Any) -> bool:
    """Whether sums go round."""
    array = np.full(1_000_000, rank, "f4")
    opened.mean([array], cut((len(array),), size, len(array)), 1.0, None)
    return bool((array == sum(range(size))).all())


def received(stranger: socket.socket) -> int:
    """Return how many bytes a stranger gets."""
    stranger.settimeout(GRACE_SECONDS)
    try:
        return len(stranger.recv(1))
    except ConnectionError:
        return 0


def handles() -> list[int]:
    """Count the open files and threads."""
    gc.collect()
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
        opened = open_ring(part, range(ranks))
        found[f"{turn} {ranks}"] = None if opened is None else opened.sockets
        if opened is not None and turn % 2:
            opened.close()
        del opened
        comm.Barrier()
    counts.append(handles())
found["counts"] = counts

write_found()
