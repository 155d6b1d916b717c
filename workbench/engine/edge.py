"""The edge of a training, where a run's next ranks wait until its last ones have left."""

from __future__ import annotations

import threading
from collections.abc import Callable

from workbench.engine.reporting.run_log import RunLog

LOOK_SECONDS = 0.1


class Edge:
    """Keeps this rank before its training until the run continues on it.

    Args:
        enter: Makes this rank one of an execution, and returns the log of that.
    """

    def __init__(self, enter: Callable[[str], RunLog]) -> None:
        self._enter = enter
        self._event = threading.Event()
        self._execution = ""

    def open(self, execution: str) -> None:
        """Let the rank continue as one of ``execution``; may be called from another thread."""
        self._execution = execution
        self._event.set()

    def wait(self) -> RunLog:
        """Wait until the run continues here; an interrupt ends the wait."""
        while not self._event.wait(LOOK_SECONDS):
            pass
        return self._enter(self._execution)
