"""Send what a rank prints to the run's log, for as long as the run lasts."""

from __future__ import annotations

import io
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from workbench.engine.log import RunLog


class _Stream(io.TextIOBase):
    """A text stream that writes into a run's log."""

    encoding = "utf-8"
    errors = "replace"

    def __init__(self, log: RunLog, name: str) -> None:
        self._log = log
        self.name = f"<{name}>"
        self._stream = name

    def writable(self) -> bool:
        return True

    def write(self, text: str) -> int:
        if text:
            self._log.write(self._stream, text)
        return len(text)


@contextmanager
def captured(log: RunLog) -> Iterator[None]:
    """Let ``sys.stdout`` and ``sys.stderr`` write into ``log``."""
    before = sys.stdout, sys.stderr
    sys.stdout, sys.stderr = _Stream(log, "stdout"), _Stream(log, "stderr")
    try:
        yield
    finally:
        sys.stdout, sys.stderr = before
