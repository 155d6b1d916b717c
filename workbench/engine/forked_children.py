"""Separate a rank's forked children from its run, and end them with the rank."""

from __future__ import annotations

import ctypes
import faulthandler
import gc
import os
import signal
import sys
import threading
import traceback
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from typing import Any, NoReturn

from workbench.engine.output.output_capture import write_plainly
from workbench.engine.run_context import set_current

_SET_PARENT_DEATH_SIGNAL = 1  # <linux/prctl.h>
_prctl = ctypes.CDLL(None).prctl
_PLAIN: dict[int, Any] = {
    signal.SIGTERM: signal.SIG_DFL,
    signal.SIGINT: signal.default_int_handler,
}


@contextmanager
def end_forked() -> Iterator[None]:
    """End a forked child that returns from the user's code, as at the end of a program."""
    rank = os.getpid()
    try:
        yield
    except BaseException as error:
        if os.getpid() == rank:
            raise
        _leave(error)
    if os.getpid() != rank:
        _leave(None)


class ForkedChildren:
    """The children that this process forks from now on.

    Args:
        handlers: The engine's own signal handlers, which a child must not inherit: they would
            ignore SIGTERM and interrupts.
    """

    def __init__(self, handlers: Collection[Callable[..., Any]]) -> None:
        self._handlers = tuple(handlers)
        self._rank = os.getpid()
        self._fork = threading.local()
        os.register_at_fork(
            before=self._prepare, after_in_parent=self._continue, after_in_child=self._be_plain
        )

    def _prepare(self) -> None:
        self._fork.by_main_thread = threading.current_thread() is threading.main_thread()
        self._fork.parent = os.getpid()
        # A signal before the child has its own handlers would be lost, so it is blocked until then.
        self._fork.mask = signal.pthread_sigmask(signal.SIG_BLOCK, _PLAIN)

    def _continue(self) -> None:
        signal.pthread_sigmask(signal.SIG_SETMASK, self._fork.mask)

    def _be_plain(self) -> None:
        # What the rank has let go of may wait at its end for threads that only the rank has, as
        # gloo's process groups do.
        gc.freeze()
        set_current(None)
        self._end_with_parent()
        signal.set_wakeup_fd(-1)
        for number, plain in _PLAIN.items():
            if signal.getsignal(number) in self._handlers:
                signal.signal(number, plain)
        write_plainly()
        faulthandler.enable(2, all_threads=False)
        self._continue()

    def _end_with_parent(self) -> None:
        """Have the kernel kill this process when the rank ends in any way.

        The signal comes at the end of the forking thread, so only children of the main thread
        request it; grandchildren may survive their parent. All others are ended with the
        world.
        """
        if self._fork.by_main_thread and self._fork.parent == self._rank:
            _prctl(_SET_PARENT_DEATH_SIGNAL, signal.SIGKILL, 0, 0, 0)
            if os.getppid() != self._rank:  # it has ended before that
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
