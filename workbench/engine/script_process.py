"""Let a script end as a process does, while what it still prints belongs to its run.

A rank executes a script within its engine, whose own functions for the exit are none of the
script's: they are dropped before it begins.
"""

from __future__ import annotations

import atexit
import ctypes
import gc
import io
import os
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable
from types import ModuleType
from typing import Any, NoReturn

ABANDONED_SECONDS = 60.0
# What an engine consists of; libraries that it imports have exits that a script counts on.
_ENGINE = frozenset({"IPython", "ipykernel", "ipyparallel", "jupyter_client", "traitlets"})
_register = atexit.register
_noted: list[Callable[..., object]] = []


def note_exits() -> None:
    """Note what registers itself for the exit from now on, until ``drop_exits``."""

    def note(function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Callable[..., Any]:
        _noted.append(function)
        return _register(function, *args, **kwargs)

    atexit.register = note


def drop_exits() -> None:
    """Have the engine's own functions not run at the exit."""
    atexit.register = _register
    for function in _noted:
        if str(getattr(function, "__module__", "")).partition(".")[0] in _ENGINE:
            atexit.unregister(function)
    _noted.clear()


def join_threads() -> None:
    """Wait for the script's threads, as Python does at the end of a program."""
    threading._shutdown()  # type: ignore[attr-defined]  # it also ends the workers of executors


def run_exits() -> None:
    """Call what is registered for the exit, the last first."""
    atexit._run_exitfuncs()


def let_go() -> None:
    """Drop what the script's module holds, in Python's order, and write open files out."""
    main = sys.modules.get("__main__")
    if isinstance(main, ModuleType):
        names = [name for name in vars(main) if name != "__builtins__"]
        for name in sorted(names, key=lambda one: not _is_private(one)):
            main.__dict__[name] = None
    gc.collect()
    for file in [one for one in gc.get_objects() if isinstance(one, io.IOBase)]:
        try:
            if not file.closed and file.writable():
                file.flush()
        except Exception:  # noqa: BLE001  # as Python, which closes them in any state
            continue


def _is_private(name: str) -> bool:
    return name.startswith("_") and not name.startswith("__")


def exit_process() -> NoReturn:
    """End this process, with what C libraries do at the exit."""
    # Other threads would run on beside these; none can while Python's lock is held.
    ctypes.PyDLL(None).exit(0)
    raise AssertionError("exit() returned")


def report_exits(report: Callable[[int, str], None]) -> None:
    """Make ``os._exit`` call ``report`` with the status and the stack; not in forked children."""
    leave, owner = os._exit, os.getpid()

    def report_and_exit(status: int) -> None:
        try:
            if os.getpid() == owner:
                report(status, "".join(traceback.format_stack()[:-1]))
        finally:
            leave(status)

    os._exit = report_and_exit  # type: ignore[assignment]  # it does not return either


def await_end() -> NoReturn:
    """Wait until this process is ended with its world, because the script failed on a rank."""
    time.sleep(ABANDONED_SECONDS)
    os._exit(1)


def end_by_signal() -> None:
    """Have SIGTERM end this process at once: its script is over."""
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
