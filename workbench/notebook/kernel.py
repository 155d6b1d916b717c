"""Distinguish the user's interrupt from one that precedes the kernel's shutdown.

jupyter_client interrupts a kernel before it restarts, shuts down or culls it, by SIGINT
or in a message, and then sends a ``shutdown_request`` on the control channel: 3 ms later on an idle
machine. ``now=True`` kills it at once instead. The interrupt itself has no reason. So it is
delayed, and the request, or the end of this process, cancels it meanwhile.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Mapping
from types import FunctionType, ModuleType
from typing import Any

from IPython import get_ipython

from workbench.core.run.model import Run
from workbench.view.following import Interrupts

_MISSING = re.compile(r"NameError: name '(\w+)' is not defined")
# A frame, or several folded ones of libraries; code of a cell is in no file.
_FRAME = re.compile(r'^[\s|]*(?:File "(?P<file>[^"]*)"|…)')
_LONGEST_VALUE = 30

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


def kernel_advice(run: Run) -> str:
    """Return what to do about a cell's missing name, if this kernel has it; else nothing."""
    shell = get_ipython()
    if shell is None or run.wish.path:
        return ""
    hidden = vars(shell).get("user_ns_hidden", {})  # what IPython itself puts there
    names = {
        name: value
        for name, value in shell.user_ns.items()
        if not name.startswith("_") and hidden.get(name, hidden) is not value
    }
    return explain_missing(run.fact.error, names)


def explain_missing(traceback: str, names: Mapping[str, Any]) -> str:
    """Return one sentence for the first name that a cell's own code misses and ``names`` has.

    Args:
        traceback: The rank's, with the frames of libraries folded or not.
        names: The kernel's variables.
    """
    is_own = False
    for line in traceback.splitlines():
        if frame := _FRAME.match(line):
            is_own = (frame["file"] or "").startswith("<") and "<frozen" not in line
        elif (found := _MISSING.search(line)) and is_own and found[1] in names:
            return _sentence(found[1], names[found[1]])
    return ""


def _sentence(name: str, value: object) -> str:
    verb = {ModuleType: "import", FunctionType: "define", type: "define"}.get(type(value), "make")
    where = f"{verb} it in a %%dist_train or %%dist_setup cell"
    if isinstance(value, int | float) and len(repr(value)) < _LONGEST_VALUE:
        where += f", or add --param {name}={value!r}"
    return f"{name!r} is in the notebook's kernel; ranks have their own variables: {where}."
