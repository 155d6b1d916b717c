"""Notice that the store is being written, without asking it again and again."""

from __future__ import annotations

import contextlib
import ctypes
import os
from pathlib import Path

from workbench.store.disk import mount_under

_MODIFY = 0x2  # IN_MODIFY of <sys/inotify.h>
_NBYTES = 4096


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
