"""What an ended world leaves on this machine: processes, which are ended, and shared memory.

Open MPI leaves its segments behind when a rank is killed. In a folder of the world they can be
removed once its processes have ended.

Run on another host as ``python -m workbench.cluster.leftovers MARK``; it returns when they have
ended.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import stat
import sys
import time
from collections.abc import Collection, Sequence
from pathlib import Path

import psutil

from workbench.core.world.world import WORLD_VARIABLE

SHARED_MEMORY = Path("/dev/shm")
_SETTINGS = ("btl_sm", "osc_sm", "osc_rdma")

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


def segment_folder(mark: str) -> Path:
    """Return the folder of the world with this mark, which may not exist."""
    return SHARED_MEMORY / f"workbench-{os.geteuid()}-{mark}"


def left_marks(cluster: str) -> list[str]:
    """Return the marks of a cluster's worlds that have a folder.

    Args:
        cluster: The part of a mark that names the cluster.
    """
    paths = SHARED_MEMORY.glob(f"{segment_folder(cluster).name}.*")
    return sorted(path.name.removeprefix(segment_folder("").name) for path in paths)


def segment_settings(mark: str) -> dict[str, str]:
    """Create a world's folder, and return the variables that make Open MPI use it.

    Empty where there is no shared memory, or where another user has made a folder of this name.
    """
    folder = segment_folder(mark)
    try:
        folder.mkdir(mode=0o700, exist_ok=True)
        found = folder.lstat()
    except OSError:
        return {}
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.geteuid() or found.st_mode & 0o077:
        return {}
    return {f"OMPI_MCA_{name}_backing_directory": str(folder) for name in _SETTINGS}


def remove_segments(mark: str) -> None:
    """Remove a world's folder, if it exists, after the world's processes have ended."""
    if mark:
        shutil.rmtree(segment_folder(mark), ignore_errors=True)
