"""Write the supervisor's log, and limit its size and that of its world's logs."""

from __future__ import annotations

import contextlib
import logging
import os
import sys
from pathlib import Path

from workbench.core.supervisor.log_messages import FORMAT, OWN
from workbench.requests.supervisor import FORMER_LOG_NAME
from workbench.store.paths import owners_only

MOST_NBYTES = 1 << 20


class LogFile(logging.StreamHandler):  # type: ignore[type-arg]  # its stream is stderr
    """A handler that writes to stderr, and starts a new file when the log is large.

    Libraries and the interpreter write to stderr too, so their messages are in the same file.

    Args:
        path: The file that stdout and stderr lead to; if they do not, no new file is started.
    """

    def __init__(self, path: Path, most: int = MOST_NBYTES) -> None:
        super().__init__(sys.stderr)
        self.setFormatter(logging.Formatter(FORMAT))
        # CURVE protects the connections, in place of the signatures that Jupyter's sessions miss.
        self.addFilter(lambda record: "Message signing is disabled" not in str(record.msg))
        self._path = path
        self._most = most

    def emit(self, record: logging.LogRecord) -> None:
        """Write a record."""
        super().emit(record)
        with contextlib.suppress(OSError):  # on a full disk the log stays as it is
            if os.fstat(2).st_size > self._most and os.path.samestat(
                os.fstat(2), self._path.stat()
            ):
                self._begin_again()

    def _begin_again(self) -> None:
        os.replace(self._path, self._path.with_name(FORMER_LOG_NAME))
        with open(self._path, "ab", opener=owners_only) as file:
            for standard in (1, 2):
                os.dup2(file.fileno(), standard)


def begin_log(path: Path) -> None:
    """Log everything of this process to a cluster's log."""
    logging.basicConfig(level=logging.INFO, handlers=[LogFile(path)])
    logging.getLogger(OWN).setLevel(logging.DEBUG)


def shorten(path: Path, most: int = MOST_NBYTES) -> None:
    """Drop the first half of a large log that other processes append to."""
    with contextlib.suppress(OSError), path.open("r+b") as file:
        if os.fstat(file.fileno()).st_size <= most:
            return
        file.seek(-most // 2, os.SEEK_END)
        kept = file.read().partition(b"\n")[2]
        file.truncate(0)
        file.seek(0)
        file.write(kept)
