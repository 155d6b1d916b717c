"""Raise errors for input and debuggers on a rank, which would wait for a user forever."""

from __future__ import annotations

import bdb
import builtins
import getpass
import io
import os
import pdb
import sys
from collections.abc import Callable
from typing import Any, NoReturn

from workbench.errors import NoKeyboard

ASK = "pass --param NAME=VALUE, or set a variable in the cell"
READ = "read from a file"
DEBUG = "print what you want to see, or raise an error to see the stack"


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
