"""Write the supervisor's heartbeat, and keep its watchdog alive."""

from __future__ import annotations

import contextlib
import fcntl
import logging
import math
import os
import select
import signal
import subprocess
import sys
import time
from pathlib import Path

from workbench import __version__
from workbench.core.moment import Deadlines, Moment, Reckoning
from workbench.core.supervisor.heartbeat import PATIENCE_SECONDS, Heartbeat, heartbeat_text
from workbench.errors import MachineError
from workbench.requests.supervisor import HEARTBEAT_NAME, birth, boot_id, is_watched, last_heartbeat
from workbench.store.paths import write_private

log = logging.getLogger("workbench.supervisor")

BEAT_SECONDS = 1.0
WATCHDOG_SECONDS = 5.0
WATCHDOG_LOCK = "watchdog.lock"
END_SECONDS = 2.0
# The patience for long turns: reaching a predecessor's nodes, and deleting all of them.
LONG_SECONDS = 300.0


# Not every system has a clock that also counts while it is suspended.
_STEADY = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


def read_clocks() -> Moment:
    """Return the present moment."""
    return Moment(time.time(), time.clock_gettime(_STEADY))


class HeartbeatWriter:
    """The heartbeat of this process.

    It also passes on what a successor cannot know otherwise: how much of each deadline is left, and
    the time of the fleet's accounts.

    Args:
        folder: The folder of the cluster.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._before = last_heartbeat(folder)
        self._boot, self._born = boot_id(), birth(os.getpid())
        self._beaten = self._watched = -math.inf

    def __repr__(self) -> str:
        return f"<HeartbeatWriter of {self._folder.name}>"

    def taken_over(self, now: Moment) -> tuple[Deadlines, Reckoning]:
        """Return a predecessor's deadlines and the time of its accounts, as far as still valid."""
        before = self._before
        if before is None:
            return Deadlines(), Reckoning(now.wall, now.steady)
        if before.boot != self._boot:
            return Deadlines(left=before.left()), Reckoning(now.wall, now.steady)
        return Deadlines(before.deadlines()), Reckoning(before.epoch, before.steady).at(now)

    def beat(
        self,
        now: Moment,
        books: Reckoning,
        deadlines: Deadlines,
        *,
        patience: float = PATIENCE_SECONDS,
    ) -> None:
        """Write the heartbeat about once a second; at once if the next turn may take long.

        A full disk does no harm: a supervisor that moves without writing is left alone.
        """
        moment = time.monotonic()
        if patience == PATIENCE_SECONDS and moment - self._beaten < BEAT_SECONDS:
            return
        self._beaten = moment
        ends = {about: (end.at, end.steady) for about, end in deadlines.all.items()}
        beat = Heartbeat(
            *(self._boot, os.getpid(), self._born),
            *(moment, patience, now.steady, books.epoch),
            ends,
            __version__,
        )
        with contextlib.suppress(MachineError):
            write_private(self._folder / HEARTBEAT_NAME, heartbeat_text(beat))
        if moment - self._watched >= WATCHDOG_SECONDS:
            self._watched = moment
            self._keep_watchdog()

    def end(self) -> None:
        """Remove the heartbeat, and end the watchdog, which would notice that a moment later."""
        with contextlib.suppress(OSError):
            (self._folder / HEARTBEAT_NAME).unlink()
        with contextlib.suppress(OSError, ValueError):
            pid = int((self._folder / WATCHDOG_LOCK).read_text(encoding="ascii"))
            handle = os.pidfd_open(pid)
            try:
                words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
                if os.fsencode(self._folder) in words:  # it is ours, and no later process
                    signal.pidfd_send_signal(handle, signal.SIGTERM)
                    select.select([handle], [], [], END_SECONDS)
            finally:
                os.close(handle)

    def _keep_watchdog(self) -> None:
        if not is_watched() or self._has_watchdog():
            return
        script = Path(__file__).with_name("watchdog.py")
        # No installed package is loaded, so that it costs next to nothing.
        command = [sys.executable, "-I", "-S", str(script), str(self._folder), self._folder.name]
        with contextlib.suppress(OSError):
            subprocess.run(command, stdin=subprocess.DEVNULL, cwd="/", check=False, timeout=10.0)

    def _has_watchdog(self) -> bool:
        with contextlib.suppress(OSError), (self._folder / WATCHDOG_LOCK).open("ab") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except BlockingIOError:
                return True
            return False
        return True  # there is no folder to watch
