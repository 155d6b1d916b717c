"""Restore the process state that a cell has changed, at the end of a run."""

from __future__ import annotations

import contextlib
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager

# Others, such as SIGCHLD, belong to libraries that set them once.
_SIGNALS = (
    signal.SIGINT,
    signal.SIGTERM,
    signal.SIGHUP,
    signal.SIGALRM,
    signal.SIGVTALRM,
    signal.SIGPROF,
)
_TIMERS = (signal.ITIMER_REAL, signal.ITIMER_VIRTUAL, signal.ITIMER_PROF)


@contextmanager
def restored() -> Iterator[None]:
    """Restore standard streams, timers and signal handlers; for the main thread."""
    streams = sys.stdin, sys.stdout, sys.stderr
    timers = {timer: signal.getitimer(timer) for timer in _TIMERS}
    handlers = {number: signal.getsignal(number) for number in _SIGNALS}
    try:
        yield
    finally:
        for timer, left in timers.items():  # first: without a handler, an alarm ends the process
            signal.setitimer(timer, *left)
        for number, handler in handlers.items():
            if handler is not None and signal.getsignal(number) is not handler:
                signal.signal(number, handler)
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(Exception):  # the cell may have put any object there
                stream.flush()
        sys.stdin, sys.stdout, sys.stderr = streams
