"""End the processes that an ended world left on this machine, and remove its shared memory.

Run on another host as ``python -m workbench.cluster.leftover_processes MARK``; it returns when they
have ended.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import time
from collections.abc import Collection, Sequence

import psutil

from workbench.cluster.shared_memory import remove_segments
from workbench.core.world.world import WORLD_VARIABLE

# Enough for a resource tracker, which waits for the others, to remove shared memory.
GRACE_SECONDS = 1.0
PATIENCE_SECONDS = 5.0
LOOK_SECONDS = 0.1


class LeftoverProcesses:
    """The remaining processes of a world on this machine.

    Args:
        mark: The value of ``WORLD_VARIABLE`` in the environment of all its processes.
        groups: Process groups that its ranks led, for processes with another environment.
    """

    def __init__(self, mark: str, groups: Collection[int] = ()) -> None:
        self._mark = mark
        self._groups = frozenset(groups)
        self._since: float | None = None

    def press(self, now: float) -> bool:
        """End them, by force after a grace time; true once none is left, or none can be ended.

        The world's shared memory is removed once none is left.

        Args:
            now: Seconds of a monotonic clock.
        """
        found = self.find()
        if not found:
            remove_segments(self._mark)
            return True
        first = self._since is None
        self._since = now if self._since is None else self._since
        late = now - self._since
        if first or late > GRACE_SECONDS:
            for process in found:
                with contextlib.suppress(psutil.Error):
                    process.send_signal(signal.SIGTERM if first else signal.SIGKILL)
        return late > PATIENCE_SECONDS

    def find(self) -> list[psutil.Process]:
        """Return the remaining processes, without this one."""
        orphaned = {group for group in self._groups if not psutil.pid_exists(group)}
        return [
            process
            for process in psutil.process_iter()
            if process.pid != os.getpid() and self._is_of_world(process, orphaned)
        ]

    def _is_of_world(self, process: psutil.Process, orphaned: Collection[int]) -> bool:
        with contextlib.suppress(psutil.Error, OSError):
            if process.status() == psutil.STATUS_ZOMBIE:
                return False
            # The id of a group is not reused for a process while the group exists.
            if orphaned and os.getpgid(process.pid) in orphaned:
                return True
            return bool(self._mark and process.environ().get(WORLD_VARIABLE) == self._mark)
        return False


def mark_of(cluster: str, generation: int) -> str:
    """Return the mark of the processes of a world.

    Args:
        cluster: Identifies the cluster.
    """
    return f"{cluster}.{generation}"


def main(arguments: Sequence[str]) -> int:
    """End the remaining processes of the world with the given mark."""
    remains = LeftoverProcesses(arguments[0])
    while not remains.press(time.monotonic()):
        time.sleep(LOOK_SECONDS)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
