"""Make a plain process of what a rank forks: no part of the run, and ended with its rank."""

from __future__ import annotations

import ctypes
import faulthandler
import os
import signal
import sys
import threading
import traceback
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from typing import Any, NoReturn

from workbench.engine.output_capture import write_plainly
from workbench.engine.run_context import set_current

_SET_PARENT_DEATH_SIGNAL = 1  # <linux/prctl.h>
_prctl = ctypes.CDLL(None).prctl
_PLAIN: dict[int, Any] = {
    signal.SIGTERM: signal.SIG_DFL,
    signal.SIGINT: signal.default_int_handler,
}


@contextmanager
def ended_if_forked() -> Iterator[None]:
    """End a forked child that comes out of the user's code, as the end of a program does."""
    rank = os.getpid()
    try:
        yield
    except BaseException as error:
        if os.getpid() == rank:
            raise
        _leave(error)
    if os.getpid() != rank:
        _leave(None)


class Children:
    """What this process forks from now on.

    Args:
        handlers: The engine's own signal handlers, which a child must not inherit: it would
            neither end by SIGTERM nor be interrupted.
    """

    def __init__(self, handlers: Collection[Callable[..., Any]]) -> None:
        self._handlers = tuple(handlers)
        self._rank = os.getpid()
        self._fork = threading.local()
        os.register_at_fork(
            before=self._prepare, after_in_parent=self._go_on, after_in_child=self._be_plain
        )

    def _prepare(self) -> None:
        self._fork.by_main_thread = threading.current_thread() is threading.main_thread()
        # A signal that comes before the child has its own handlers would be lost: it waits.
        self._fork.mask = signal.pthread_sigmask(signal.SIG_BLOCK, _PLAIN)

    def _go_on(self) -> None:
        signal.pthread_sigmask(signal.SIG_SETMASK, self._fork.mask)

    def _be_plain(self) -> None:
        set_current(None)
        self._end_with_parent()
        signal.set_wakeup_fd(-1)
        for number, plain in _PLAIN.items():
            if signal.getsignal(number) in self._handlers:
                signal.signal(number, plain)
        write_plainly()
        faulthandler.enable(2, all_threads=False)
        self._go_on()

    def _end_with_parent(self) -> None:
        """Be killed when the rank is, however that ends.

        The signal comes at the end of the thread that forked, so only the main thread's children
        ask for it; what a child forks in turn may outlive that child. All else is ended with the
        world.
        """
        if self._fork.by_main_thread and os.getppid() == self._rank:
            _prctl(_SET_PARENT_DEATH_SIGNAL, signal.SIGKILL, 0, 0, 0)
            if os.getppid() != self._rank:
                os.kill(os.getpid(), signal.SIGKILL)


def _leave(error: BaseException | None) -> NoReturn:
    status: object = error.code if isinstance(error, SystemExit) else error
    if status is not None and not isinstance(status, int):
        if isinstance(status, BaseException):
            traceback.print_exception(status)
        else:
            print(status, file=sys.stderr)
        status = 1
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(int(status or 0))
