"""Distinguish the user's interrupt from one that precedes the kernel's shutdown.

jupyter_client interrupts a kernel before it restarts, shuts down or culls it, by SIGINT
or in a message, and then sends a ``shutdown_request`` on the control channel: 3 ms later on an idle
machine. ``now=True`` kills it at once instead. The interrupt itself has no reason. So it is
delayed, and the request, or the end of this process, cancels it meanwhile.
"""

from __future__ import annotations

import threading
from typing import Any

from workbench.view.interrupts import Interrupts

# Seconds from the interrupt to the request; the sender does nothing else between them.
RESTART_SECONDS = 1.0
# In each round the thread of the control channel handles pending messages.
ROUNDS = 3
ROUND_SECONDS = 0.02


class KernelControl:
    """The messages on the control channel of a shell's kernel.

    Args:
        shell: IPython's shell; in a terminal it has no kernel.
    """

    def __init__(self, shell: Any) -> None:
        self._kernel = getattr(shell, "kernel", None)
        self._has_listened = threading.Event()
        self._rounds = 0

    def interrupts(self) -> Interrupts:
        """Return interrupts that count only if the kernel is not shutting down."""
        if self._loop() is None:
            return Interrupts()
        return Interrupts(RESTART_SECONDS, self.is_heard_out)

    def is_ending(self) -> bool:
        """Return whether a shutdown or restart of this kernel was requested."""
        # ipykernel stores it in its control thread, without a public name.
        return getattr(self._kernel, "_shutdown_message", None) is not None

    def is_heard_out(self) -> bool:
        """Return whether all messages pending at the first call have been handled.

        The thread may be late on a busy machine, or beside a cell that computes.
        """
        if not self._rounds:
            self._rounds = ROUNDS
            self._loop().add_callback(self._listen)
        return self._has_listened.is_set()

    def _loop(self) -> Any:
        """Return the event loop of the control thread, or None without one."""
        if getattr(self._kernel, "control_thread", None) is None:
            return None
        stream = getattr(self._kernel, "control_stream", None)
        return stream and stream.io_loop

    def _listen(self) -> None:
        self._rounds -= 1
        if self._rounds > 0:
            self._loop().call_later(ROUND_SECONDS, self._listen)
        else:
            self._has_listened.set()
