"""How long the supervisor sleeps: until a message, a process's end, or a change of the store.

While something begins or ends, and where nodes of a fleet are asked how they are, it looks again
and again. Else that would only take time from the ranks, which need the same processors.
"""

from __future__ import annotations

import contextlib
import ctypes
import math
import os
import time
from pathlib import Path

from workbench.cluster.interface import Cluster
from workbench.errors import StoreUnavailable
from workbench.store import Store
from workbench.store.disk import mount_under

_MODIFY = 0x2  # IN_MODIFY of <sys/inotify.h>
_NBYTES = 4096

READ_SECONDS = 1.0
CALM_SECONDS = 1.0
# Of that time: a turn that messages begin anyway also looks, as each turn takes time of the ranks.
EARLY = 0.5
# A commit is read a moment after its notice, and a rank's end is reported a moment after it. Then
# mpiexec ends the others, and which was the first is known to who looked before.
AGAIN_SECONDS = 0.02
PROMPT_SECONDS = 0.3
ENDED_SECONDS = 2.0
_NOTHING_READ = -1


class WakeUps:
    """Wakes the supervisor of a cluster, where this machine can.

    Args:
        store: The store whose changes wake it.
        cluster: Waits for messages and for the ends of processes.
    """

    def __init__(self, store: Store, cluster: Cluster) -> None:
        self._store = store
        self._cluster = cluster
        self._changes: StoreChanges | None = None
        self._version, self._read = _NOTHING_READ, -math.inf
        self._looks_again = False
        self._ended = -math.inf
        with contextlib.suppress(OSError):
            changes = StoreChanges(store.path)
            if cluster.wake_by(changes.descriptor):
                self._changes = changes
            else:
                changes.close()

    def __repr__(self) -> str:
        return f"<WakeUps: {'woken' if self.is_woken else 'looks'}>"

    @property
    def is_woken(self) -> bool:
        """Whether changes of the store, and ends of processes, end a wait for messages.

        Not for a while after a process has ended: what else ends with it, and why, is found by
        looking.
        """
        return self._changes is not None and time.monotonic() - self._ended >= ENDED_SECONDS

    def look_seconds(self, usual: float, *, calm: bool) -> float:
        """Return the time between two looks at the worlds.

        Args:
            usual: That of the worlds, as they are.
            calm: Whether nothing begins or ends.
        """
        if time.monotonic() - self._ended < PROMPT_SECONDS:
            return min(AGAIN_SECONDS, usual)
        return CALM_SECONDS if calm else usual

    def wait_seconds(self, look_seconds: float) -> float:
        """Return how long to wait for messages, at most ``look_seconds``."""
        if self._changes is None:
            return look_seconds
        self._changes.take()  # also what this process has written itself
        if self._is_new():
            return 0.0
        return min(AGAIN_SECONDS, look_seconds) if self._looks_again else look_seconds

    def note_wake(self) -> None:
        """Note what ended the wait; a change of the store may not be there to read yet."""
        if self._cluster.has_news:
            self._ended = time.monotonic()
        self._looks_again = bool(self._changes and self._changes.take()) and not self._is_new()

    def has_changed(self, now: float) -> bool:
        """Return whether the store changed since the last call, or that is a second ago.

        Args:
            now: Seconds of a steady clock.
        """
        version = self._store.data_version()
        changed = version != self._version or now - self._read >= READ_SECONDS
        self._version = version
        if changed:
            self._read = now
        return changed

    def read_again(self) -> None:
        """Count the store as changed: a process is not notified of its own writes."""
        self._version = _NOTHING_READ

    def _is_new(self) -> bool:
        with contextlib.suppress(StoreUnavailable):
            return self._store.data_version() != self._version
        return False


class StoreChanges:
    """A descriptor that can be read once a process of this machine has written the store.

    What this process writes counts too. A reader may see a commit a moment after its notice.

    Args:
        path: The SQLite file.

    Raises:
        OSError: The system cannot watch its folder.
    """

    def __init__(self, path: Path) -> None:
        folder = path.absolute().parent
        if mount_under(folder).is_shared:
            raise OSError("what other machines write is not noticed")
        libc = ctypes.CDLL(None, use_errno=True)
        self.descriptor = _check_result(libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC))
        try:
            # The folder, since the journal is a file of its own, which comes and goes.
            _check_result(libc.inotify_add_watch(self.descriptor, os.fsencode(folder), _MODIFY))
        except OSError:
            self.close()
            raise

    def __repr__(self) -> str:
        return f"<StoreChanges {self.descriptor}>"

    def take(self) -> bool:
        """Return whether it was written since the last call."""
        is_written = False
        with contextlib.suppress(BlockingIOError):
            while os.read(self.descriptor, _NBYTES):
                is_written = True
        return is_written

    def close(self) -> None:
        """Close the descriptor."""
        os.close(self.descriptor)


def _check_result(result: int) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return result
