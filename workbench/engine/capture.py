"""Send what a rank prints to the run that is on, and to its old place outside of one."""

from __future__ import annotations

import io
import sys
from typing import Any

from workbench.engine.current import current


class RoutedStream(io.TextIOBase):
    """A text stream that writes into the current run's log.

    It stands in for ``sys.stdout`` for as long as the process lives: Chainer's ``PrintReport``
    binds the stream when it is imported, so one that comes and goes with a run would be missed.
    """

    def __init__(self, name: str, original: Any) -> None:
        self._stream = name
        self._original = original

    def writable(self) -> bool:
        """Return True."""
        return True

    def write(self, text: str) -> int:
        """Write ``text`` where it belongs at this moment."""
        run = current()
        if run is None:
            return int(self._original.write(text) or 0)
        if text:
            run.log.write(self._stream, text)
        return len(text)

    def flush(self) -> None:
        """Flush the original; a run's log is sent by itself."""
        self._original.flush()

    def __getattr__(self, name: str) -> Any:
        # ipykernel's streams have methods of their own, which the engine goes on calling.
        return getattr(self._original, name)


def route_output() -> None:
    """Put routed streams in the place of ``sys.stdout`` and ``sys.stderr``, once."""
    if not isinstance(sys.stdout, RoutedStream):
        sys.stdout = RoutedStream("stdout", sys.stdout)
        sys.stderr = RoutedStream("stderr", sys.stderr)
