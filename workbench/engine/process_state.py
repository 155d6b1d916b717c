"""Set a run's variables, and restore the process state that it has changed at its end."""

from __future__ import annotations

import contextlib
import faulthandler
import os
import resource
import signal
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from workbench.core.run.origin import PYTHON_PATH
from workbench.core.world.world import THREADS
from workbench.engine.framework import frameworks

# Others, such as SIGCHLD, belong to libraries that set them once.
_SIGNALS = (
    signal.SIGINT,
    signal.SIGTERM,
    signal.SIGHUP,
    signal.SIGALRM,
    signal.SIGVTALRM,
    signal.SIGPROF,
)
_LIMITS = (resource.RLIMIT_CPU, resource.RLIMIT_FSIZE)  # who exceeds one is ended by a signal
_TIMERS = (signal.ITIMER_REAL, signal.ITIMER_VIRTUAL, signal.ITIMER_PROF)

GPUS = "CUDA_VISIBLE_DEVICES"


@contextmanager
def restored() -> Iterator[None]:
    """Restore standard streams, timers, limits and signal handlers; for the main thread."""
    streams = sys.stdin, sys.stdout, sys.stderr
    timers = {timer: signal.getitimer(timer) for timer in _TIMERS}
    limits = {limit: resource.getrlimit(limit) for limit in _LIMITS}
    handlers = {number: signal.getsignal(number) for number in _SIGNALS}
    try:
        yield
    finally:
        for timer, left in timers.items():  # first: without a handler, an alarm ends the process
            signal.setitimer(timer, *left)
        faulthandler.cancel_dump_traceback_later()
        for limit, pair in limits.items():
            with contextlib.suppress(OSError, ValueError):  # what was lowered for good stays
                resource.setrlimit(limit, pair)
        for number, handler in handlers.items():
            if handler is not None and signal.getsignal(number) is not handler:
                signal.signal(number, handler)
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(Exception):  # the cell may have put any object there
                stream.flush()
        sys.stdin, sys.stdout, sys.stderr = streams


@contextmanager
def variables_set(variables: Mapping[str, str | None]) -> Iterator[None]:
    """Set environment variables, or remove those without a value, for as long as a run lasts.

    What libraries and Python read from them once, when they are loaded, is set as well.
    """
    before = {name: os.environ.get(name) for name in variables}
    path = [*sys.path]
    with contextlib.ExitStack() as after:
        if (threads := _threads(variables)) is not None:
            import threadpoolctl  # slow, and seldom needed

            after.enter_context(threadpoolctl.threadpool_limits(threads))
        _put(variables)
        if GPUS in variables and any(one.has_chosen_devices() for one in frameworks()):
            print(
                f"This rank uses its GPUs already, so {GPUS} has no effect on it.", file=sys.stderr
            )
        given = variables.get(PYTHON_PATH) or ""
        added = [os.path.abspath(one) for one in given.split(os.pathsep) if one]
        sys.path[:0] = [one for one in added if one not in path]
        try:
            yield
        finally:
            _put(before)
            for one in added:
                if one not in path and one in sys.path:
                    sys.path.remove(one)


def _put(variables: Mapping[str, str | None]) -> None:
    for name, value in variables.items():
        if value is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = value
    if "TZ" in variables:
        time.tzset()


def _threads(variables: Mapping[str, str | None]) -> int | None:
    """Return the number of threads that variables ask for; None if they do not."""
    given = (variables.get(name) or "" for name in THREADS)
    found = [int(text) for value in given if (text := value.split(",")[0].strip()).isdecimal()]
    return max(found[0], 1) if found else None
