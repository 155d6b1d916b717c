"""Make the files that ipyparallel writes readable by their owner alone."""

from __future__ import annotations

import contextlib
import os
import stat
from pathlib import Path


def close_below(folder: Path) -> None:
    """Restrict ``folder`` and everything below it to the owner.

    The umask is not changed: ranks inherit it, and it is for the files of the user's program.
    """
    for place, folders, files in os.walk(folder):
        for name in (".", *folders, *files):
            path = os.path.join(place, name)
            with contextlib.suppress(OSError):  # it was removed meanwhile
                found = os.lstat(path)
                if found.st_mode & 0o077 and not stat.S_ISLNK(found.st_mode):
                    os.chmod(path, found.st_mode & 0o7700)
