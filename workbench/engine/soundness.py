"""Find whether this rank can run another cell: one that ended well may have made it unfit.

What has to work for the next cell is tried after each one. What only the next cell would show is
noted while it happens. All of it takes less than 0.1 ms.
"""

from __future__ import annotations

import os
import resource
import signal
import sys
from collections.abc import Callable
from types import FrameType
from typing import Any, NoReturn

from mpi4py import MPI

from workbench.engine.mpi_lifetime import lifetime

_NEEDED = ("workbench", "workbench.engine.entrypoints", "workbench.engine.execution")


class Soundness:
    """Whether this rank can run another cell.

    Args:
        shell: The engine's IPython shell; None outside of an engine.
    """

    def __init__(self, shell: Any = None) -> None:
        self._shell = shell
        self._kernel = getattr(shell, "kernel", None)
        self._is_busy = True  # the engine is executing what makes this
        self._is_terminated = False
        self._needed = [name for name in _NEEDED if name in sys.modules]
        self._seconds = resource.getrlimit(resource.RLIMIT_CPU)[1]
        terminate = signal.getsignal(signal.SIGTERM)
        if callable(terminate):
            signal.signal(signal.SIGTERM, self._noting(terminate))
        if self._kernel is not None:
            shell.ask_exit = self._leave_cell
            self._kernel.pre_handler_hook = self._around(self._kernel.pre_handler_hook, busy=True)
            self._kernel.post_handler_hook = self._around(
                self._kernel.post_handler_hook, busy=False
            )

    @property
    def is_idle(self) -> bool:
        """Whether the engine executes nothing of a user; for other threads."""
        return not self._is_busy

    def flaw(self) -> str:
        """Return why this rank can run no other cell, a clause; empty if it can."""
        try:
            return self._flaw()
        except Exception as error:  # noqa: BLE001  # whatever a cell has left there
            return f"nothing can be executed there ({type(error).__name__}: {error})"

    def _flaw(self) -> str:
        if lifetime.is_ended or MPI.Is_finalized():
            return "MPI was ended there by MPI.Finalize()"
        if self._is_terminated:
            return "SIGTERM came there, which ends the process"
        if self._kernel is not None:
            loop = self._kernel.io_loop.asyncio_loop
            if loop.is_closed() or getattr(loop, "_stopping", False) or self._shell.exit_now:
                return "the event loop of its engine was stopped"
            if self._kernel.shell_stream.closed():
                return "the sockets of its engine were closed"
        if self._seconds != resource.getrlimit(resource.RLIMIT_CPU)[1]:
            return "its limit on processor time was lowered"
        if gone := [name for name in self._needed if sys.modules.get(name) is None]:
            return f"the module {gone[0]} was removed there"
        try:
            os.close(os.open(os.devnull, os.O_RDONLY))
            open(os.devnull, encoding="utf-8").close()
            exec("None", {})
        except Exception as error:  # noqa: BLE001  # an audit hook raises anything
            return f"no file can be opened there ({type(error).__name__}: {error})"
        return ""

    def _noting(self, terminate: Callable[..., Any]) -> Callable[..., Any]:
        def note(number: int, frame: FrameType | None) -> None:
            self._is_terminated = True
            terminate(number, frame)

        return note

    def _around(self, hook: Callable[[], None], *, busy: bool) -> Callable[[], None]:
        def note() -> None:
            self._is_busy = busy
            hook()

        return note

    def _leave_cell(self) -> NoReturn:
        """End the cell, as in a script: quit() in a notebook is to end no process of a cluster."""
        status, self._shell.keepkernel_on_exit = self._shell.keepkernel_on_exit, None
        print("quit() ends the cell here; the ranks stay, until `%dist_delete`.")
        raise SystemExit(status if type(status) is int else None)
