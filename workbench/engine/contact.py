"""End a rank that nobody has been in contact with for long, with what MPI started for it.

Where a host is cut off, nobody else can: its ranks would wait for the others for ever.
"""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Callable

import psutil
import zmq

PATIENCE_VARIABLE = "WORKBENCH_PATIENCE"
_BEAT_MILLISECONDS = 5_000
_SILENCE_MILLISECONDS = 15_000
_DAEMONS = ("prted", "orted", "prterun", "mpiexec", "mpiexec.hydra", "hydra_pmi_proxy")


class Contact:
    """Watches a connection that was not made yet.

    Args:
        patience: Seconds that it may be away.
        give_up: Called once it was away for longer.
    """

    def __init__(
        self, socket: zmq.Socket[bytes], patience: float, give_up: Callable[[], None]
    ) -> None:
        # A tunnel takes bytes long after its other end is gone: only an answer counts.
        socket.heartbeat_ivl = _BEAT_MILLISECONDS
        socket.heartbeat_timeout = _SILENCE_MILLISECONDS
        self._socket = socket
        self._events = socket.get_monitor_socket(
            zmq.EVENT_HANDSHAKE_SUCCEEDED | zmq.EVENT_DISCONNECTED
        )
        self._patience = patience
        self._give_up = give_up
        self._away_since: float | None = time.monotonic()

    def look(self, now: float) -> None:
        """Take note of what became of the connection."""
        while self._events.poll(0):
            event = int.from_bytes(self._events.recv_multipart()[0][:2], "little")
            connected = event == zmq.EVENT_HANDSHAKE_SUCCEEDED
            if connected:
                self._away_since = None
            elif self._away_since is None:
                self._away_since = now
        if self._away_since is not None and now - self._away_since > self._patience:
            self._give_up()

    def close(self) -> None:
        """Look no more; before the connection's own socket is closed."""
        self._socket.disable_monitor()
        self._events.close(linger=0)


def patience() -> float:
    """Return the seconds that this rank waits for its supervisor; 0 where it waits for ever."""
    return float(os.environ.get(PATIENCE_VARIABLE) or 0)


def leave_for_good() -> None:
    """End MPI's processes that led to this one, and this one."""
    with contextlib.suppress(psutil.Error):
        for process in psutil.Process().parents():
            if process.name() in _DAEMONS:
                process.kill()
    os.kill(os.getpid(), signal.SIGKILL)
