"""Read from the kernel how long the other ends of connections have been silent.

The kernel probes an idle connection itself, and knows when the last answer came. So neither end
sends or parses a message for it, and hundreds of nodes cost next to nothing.
"""

from __future__ import annotations

import socket
import struct
import threading
import time
from collections.abc import Callable

from workbench.core.fleet.silence import PROBE_SECONDS, lost_nodes

LOOK_SECONDS = 0.2
# The session's own keep-alive is to end it before the kernel does.
_PROBES = 15
# <linux/tcp.h>, struct tcp_info: 8 bytes, and then numbers of 32 bits, of which these two are the
# milliseconds since data, and since an acknowledgement, were last received.
_INFO_NBYTES = 60
_LAST_RECEIVED = struct.Struct("=52xII")


def probe(connection: socket.socket) -> None:
    """Have the kernel probe an idle connection every second."""
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, PROBE_SECONDS)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, PROBE_SECONDS)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPCNT, _PROBES)


def silence(connection: socket.socket) -> float | None:
    """Return the seconds since anything came from the other end; None for a closed connection."""
    try:
        info = connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _INFO_NBYTES)
    except OSError:
        return None
    since_data, since_acknowledgement = _LAST_RECEIVED.unpack(info)
    return float(min(since_data, since_acknowledgement)) / 1000.0


class SilenceWatch:
    """Finds the connections of this process whose other end is lost.

    Args:
        measure: Returns the silence of a connection.
    """

    def __init__(
        self,
        measure: Callable[[socket.socket], float | None] = silence,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self._measure = measure
        self._now = now
        self._connections: dict[int, socket.socket] = {}
        self._lost: frozenset[int] = frozenset()
        self._looked = -LOOK_SECONDS
        self._next = 0
        self._lock = threading.Lock()

    def __repr__(self) -> str:
        return f"<SilenceWatch of {len(self._connections)} connections, {len(self._lost)} lost>"

    def add(self, connection: socket.socket) -> int:
        """Begin to watch a connection; return its key."""
        probe(connection)
        with self._lock:
            self._next += 1
            self._connections[self._next] = connection
            return self._next

    def remove(self, key: int) -> None:
        """Stop watching a connection."""
        with self._lock:
            self._connections.pop(key, None)
            self._lost -= {key}

    def is_lost(self, key: int) -> bool:
        """Return whether the other end is lost; one that was found lost stays so."""
        with self._lock:
            if self._now() - self._looked >= LOOK_SECONDS:
                self._looked = self._now()
                self._look()
            return key in self._lost

    def _look(self) -> None:
        found = {key: self._measure(one) for key, one in self._connections.items()}
        for key in [key for key, seconds in found.items() if seconds is None]:
            del self._connections[key]
        self._lost |= lost_nodes(
            {k: seconds for k, seconds in found.items() if seconds is not None}
        )


WATCH = SilenceWatch()
