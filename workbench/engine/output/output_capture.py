"""The standard streams of a rank: what it prints is captured, and what it reads is refused.

Input and debuggers raise errors, because they would wait for a user forever.
"""

from __future__ import annotations

import bdb
import builtins
import getpass
import io
import os
import pdb
import sys
from collections.abc import Callable
from typing import IO, Any, NoReturn

from workbench.engine.output.descriptor_capture import STREAMS
from workbench.engine.run_context import RunContext, current, find_overlaid
from workbench.errors import NoKeyboard

ASK = "pass --param NAME=VALUE, or set a variable in the cell"
READ = "read from a file"
DEBUG = "print what you want to see, or raise an error to see the stack"

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


class NoStdin(io.TextIOBase):
    """The standard input of a rank, which has no keyboard."""

    def readable(self) -> bool:
        """Return True, as for any input."""
        return True

    def fileno(self) -> int:
        """Return the descriptor, which is at its end."""
        return 0

    def read(self, size: int | None = -1, /) -> NoReturn:
        """Refuse."""
        raise _error("sys.stdin", READ)

    def readline(self, size: int = -1, /) -> NoReturn:  # type: ignore[override]  # never returns
        """Raise an error."""
        raise _error("sys.stdin", READ)


def refuse_questions() -> None:
    """Make ``input``, ``getpass``, ``sys.stdin`` and debuggers raise errors in this process."""
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)  # for child processes, too
    os.close(nothing)
    sys.stdin = NoStdin()
    builtins.input = _build_refusal("input()", ASK)
    getpass.getpass = _build_refusal("getpass()", ASK)
    sys.breakpointhook = _breakpoint
    for debugger in (bdb.Bdb, pdb.Pdb):
        debugger.set_trace = _build_refusal("A debugger", DEBUG)  # type: ignore[method-assign]  # every one


def _build_refusal(name: str, remedy: str) -> Callable[..., Any]:
    def refuse(*_: object, **__: object) -> NoReturn:
        raise _error(name, remedy)

    return refuse


def _breakpoint(*_: object, **__: object) -> None:
    if os.environ.get("PYTHONBREAKPOINT") != "0":  # Python's own way to skip breakpoints
        raise _error("breakpoint()", DEBUG)


def _error(name: str, remedy: str) -> NoKeyboard:
    return NoKeyboard(f"{name} cannot ask: ranks have no keyboard", f"{remedy}.")
