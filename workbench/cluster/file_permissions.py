"""Make the files that ipyparallel writes readable by their owner alone."""

from __future__ import annotations

import contextlib
import os
import stat
from pathlib import Path


def close_below(folder: Path) -> None:
    """Take from everybody but the owner what they may do with ``folder`` and all below it.

    The umask is left as it is: ranks inherit it, and what a user's program writes is theirs.
    """
    for place, folders, files in os.walk(folder):
        for name in (".", *folders, *files):
            path = os.path.join(place, name)
            with contextlib.suppress(OSError):  # it has just gone
                found = os.lstat(path)
                if found.st_mode & 0o077 and not stat.S_ISLNK(found.st_mode):
                    os.chmod(path, found.st_mode & 0o7700)
