"""End a rank that the supervisor has not contacted for long, with what MPI started for it.

Where a host is cut off, nobody else can: its ranks would wait for the others for ever.
"""

from __future__ import annotations

import contextlib
import math
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable

import psutil
import zmq

from workbench.core.world.world import WORLD_VARIABLE

PATIENCE_VARIABLE = "WORKBENCH_PATIENCE"
_BEAT_MILLISECONDS = 5_000
_SILENCE_MILLISECONDS = 15_000
_DAEMONS = ("prted", "orted", "prterun", "mpiexec", "mpiexec.hydra", "hydra_pmi_proxy")


class SupervisorTimeout:
    """Watches a connection that was not made yet.

    Args:
        patience: Seconds that it may be away; infinite where it is waited for as long as it takes.
        give_up: Called once it was away for longer.
    """

    def __init__(
        self, socket: zmq.Socket[bytes], patience: float, give_up: Callable[[], None]
    ) -> None:
        if math.isfinite(patience):
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

    def look(self, now: float) -> bool:
        """Take note of what became of the connection; true if it was made since."""
        is_anew = False
        while self._events.poll(0):
            event = int.from_bytes(self._events.recv_multipart()[0][:2], "little")
            connected = event == zmq.EVENT_HANDSHAKE_SUCCEEDED
            if connected:
                self._away_since, is_anew = None, True
            elif self._away_since is None:
                self._away_since = now
        if self._away_since is not None and now - self._away_since > self._patience:
            self._give_up()
        return is_anew

    def close(self) -> None:
        """Look no more; before the connection's own socket is closed."""
        self._socket.disable_monitor()
        self._events.close(linger=0)


def patience() -> float:
    """Return the seconds that this rank waits for its supervisor; 0 where it waits for ever."""
    return float(os.environ.get(PATIENCE_VARIABLE) or 0)


def leave_for_good() -> None:
    """End MPI's processes that led to this one, what ranks have started here, and this one."""
    if mark := os.environ.get(WORLD_VARIABLE):
        subprocess.Popen(
            [sys.executable, "-m", "workbench.cluster.leftover_processes", mark],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
    with contextlib.suppress(psutil.Error):
        for process in psutil.Process().parents():
            if process.name() in _DAEMONS:
                process.kill()
    os.kill(os.getpid(), signal.SIGKILL)
