"""Refuse what would wait for a person at a rank: questions and debuggers."""

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


class NobodysInput(io.TextIOBase):
    """The standard input of a rank, which nobody writes to."""

    def readable(self) -> bool:
        """Return True, as for any input."""
        return True

    def fileno(self) -> int:
        """Return the descriptor, which is at its end."""
        return 0

    def read(self, size: int | None = -1, /) -> NoReturn:
        """Refuse."""
        raise _refusal("sys.stdin", READ)

    def readline(self, size: int = -1, /) -> NoReturn:  # type: ignore[override]  # never returns
        """Refuse."""
        raise _refusal("sys.stdin", READ)


def refuse_questions() -> None:
    """Refuse ``input``, ``getpass``, ``sys.stdin`` and debuggers from now on in this process."""
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)  # for what the rank starts, too
    os.close(nothing)
    sys.stdin = NobodysInput()
    builtins.input = _refused("input()", ASK)
    getpass.getpass = _refused("getpass()", ASK)
    sys.breakpointhook = _breakpoint
    for debugger in (bdb.Bdb, pdb.Pdb):
        debugger.set_trace = _refused("A debugger", DEBUG)  # type: ignore[method-assign]  # refused by every instance


def _refused(name: str, remedy: str) -> Callable[..., Any]:
    def refuse(*_: object, **__: object) -> NoReturn:
        raise _refusal(name, remedy)

    return refuse


def _breakpoint(*_: object, **__: object) -> None:
    if os.environ.get("PYTHONBREAKPOINT") != "0":  # Python's own way to pass over all of them
        raise _refusal("breakpoint()", DEBUG)


def _refusal(name: str, remedy: str) -> NoKeyboard:
    return NoKeyboard(f"{name}cannot ask: ranks have no keyboard", f"{remedy}.")
