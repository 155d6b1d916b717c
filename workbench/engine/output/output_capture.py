"""Capture what a rank prints during a run."""

from __future__ import annotations

import io
import sys
from collections.abc import Callable
from typing import IO, Any

from workbench.engine.output.descriptor_capture import STREAMS
from workbench.engine.run_context import RunContext, current, find_overlaid

LEFT_OUT = (
    "workbench: a thread that an earlier run began still prints; this is left out here, because "
    "that run has ended.\n"
)
_plain: dict[str, IO[str]] = {}
"""A forked child's own streams, by name; empty in the rank itself."""


class OutputStream(io.TextIOBase):
    """A text stream that writes into the current run's log.

    It is ``sys.stdout`` from before any other import until the process ends: code that binds the
    stream once, such as Chainer's ``PrintReport`` and handlers of logging, has this one.

    Args:
        original: The target of text outside of a run.
    """

    encoding = "utf-8"  # else progress bars are drawn in ASCII
    errors = "strict"

    def __init__(self, name: str, original: Any) -> None:
        self._stream = name
        self._original = original
        self._bytes: IO[bytes] = open(STREAMS[name], "wb", buffering=0, closefd=False)  # noqa: SIM115  # stays open
        self.catch_up: Callable[[], object] = lambda: None
        """Called before a run's output, to add earlier output of other processes."""

    @property
    def name(self) -> str:
        """The name that Python gives the stream."""
        return f"<{self._stream}>"

    @property
    def buffer(self) -> IO[bytes]:
        """A stream of bytes to the file descriptor, whose output is captured as well."""
        return self._bytes

    def lead_to(self, original: Any) -> None:
        """Set the target of text outside of a run."""
        self._original = original

    def reconfigure(self, **_: object) -> None:
        """Do nothing: text is passed on at once, unbuffered."""

    def close(self) -> None:
        """Do nothing: other code still writes."""

    def writable(self) -> bool:
        """Return True."""
        return True

    def fileno(self) -> int:
        """Return the file descriptor, whose output is captured as well."""
        return STREAMS[self._stream]

    def write(self, text: str) -> int:
        """Write ``text`` to the current run, or to the original target.

        Raises:
            TypeError: ``text`` is not a string.
        """
        if not isinstance(text, str):
            raise TypeError(f"write() argument must be str, not {type(text).__name__}")
        if _plain:
            return _plain[self._stream].write(text)
        run = current()
        if run is None:
            if (later := find_overlaid()) is not None:
                return _leave_out(later, text)
            return int(self._original.write(text) or 0)
        if text and run.sinks:
            run.sinks[-1].write(self._stream, text)
        elif text:
            self.catch_up()
            run.log.write(self._stream, text)
        return len(text)

    def flush(self) -> None:
        """Flush the original target; a run's log is sent automatically.

        During a run that target has nothing: ipykernel's would wait for its own thread.
        """
        if _plain:
            _plain[self._stream].flush()
        elif current() is None:
            self._original.flush()

    def __getattr__(self, name: str) -> Any:
        # ipykernel's streams have more methods, which the engine calls.
        return getattr(self._original, name)


def _leave_out(run: RunContext, text: str) -> int:
    """Leave out what a thread of an earlier run prints now, and say so once."""
    if not run.has_strangers:
        run.has_strangers = True
        run.log.write("stderr", LEFT_OUT)
    return len(text)


def route_output() -> None:
    """Replace standard output and error by routed streams, once."""
    if not isinstance(sys.stdout, OutputStream):
        sys.stdout = sys.__stdout__ = OutputStream("stdout", sys.stdout)  # type: ignore[misc,assignment]  # it passes for one
        sys.stderr = sys.__stderr__ = OutputStream("stderr", sys.stderr)  # type: ignore[misc,assignment]  # as above


def catch_up_by(pull: Callable[[], object]) -> None:
    """Call ``pull`` before each output of a run."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, OutputStream):
            stream.catch_up = pull


def write_plainly() -> None:
    """Make a forked child write to its file descriptors, line by line."""
    for name, number in STREAMS.items():
        _plain[name] = open(number, "w", buffering=1, closefd=False, errors="backslashreplace")  # noqa: SIM115  # stays open
