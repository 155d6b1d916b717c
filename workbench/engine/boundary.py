"""Count a run's iteration boundaries, at which all ranks can stop together, and wait at its edge.

Synchronous ranks pass the same boundaries in the same order. So a number identifies the same
boundary on all of them, and they can stop together without messages between them.
"""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from workbench.engine.reporting.run_log import RunLog


LOOK_SECONDS = 0.1

_ROUNDING = 1e-6
# How much a long time between two boundaries counts after the next one.
KEPT = 0.9


class RunStopped(KeyboardInterrupt):
    """The run was asked to stop, and this rank has reached the boundary.

    A ``KeyboardInterrupt``, so that a user's ``except Exception`` lets it through.
    """


class Boundaries:
    """The boundaries that one rank has passed in one run.

    ``stop_boundary`` is the boundary at which the rank must stop, or None; ``epoch_boundary`` the
    one from which on it must stop at the end of an epoch. Where ``asks_script`` is true, the script
    is asked there for a checkpoint of its own, and ends by itself once it has saved it: ``ask``
    asks its trainer, which answers whether it will; without one, a function of the script's that
    listens to SIGTERM is asked.
    """

    def __init__(self) -> None:
        self.count = 0
        self.rate = 0.0
        self.seconds = 0.0
        """Between two boundaries lately, the longest; 0 before there are two."""
        self.stop_boundary: int | None = None
        self.epoch_boundary: int | None = None
        self.is_asked = False
        """Whether the rank must stop at some boundary: until then none can be due."""
        self._epoch, self._epochs = 0.0, 0
        self._ends_epoch = False
        self.asks_script = self.was_asked = False
        self.ask: Callable[[], bool] | None = None
        self._marked = (0, time.monotonic())
        self._passed = 0.0

    def stop_at(self, boundary: int, *, epoch: bool = False) -> None:
        """Stop at boundary number ``boundary``; may be called from another thread.

        Args:
            epoch: Stop at the first boundary from there on that ends an epoch.
        """
        if epoch:
            self.epoch_boundary = boundary
        else:
            self.stop_boundary = boundary
        self.is_asked = True  # last: the main thread then looks at the boundaries

    @property
    def due(self) -> bool:
        """Whether the rank must stop at this boundary."""
        if self.stop_boundary is not None and self.count >= self.stop_boundary:
            return True
        begun = self.epoch_boundary is not None and self.count >= self.epoch_boundary
        return begun and self._ends_epoch

    def passed(self, epoch: float = 0.0) -> None:
        """Count one more iteration.

        Args:
            epoch: Epochs done, which are the same on all ranks; 0 if unknown.
        """
        self.count += 1
        now = time.monotonic()
        if self.count > 1:  # what is before the first one is mostly start-up
            self.seconds = max(now - self._passed, KEPT * self.seconds)
        self._passed = now
        if epoch != self._epoch or self._ends_epoch:
            epochs = int(epoch + _ROUNDING)
            self._ends_epoch = epochs > self._epochs
            self._epoch, self._epochs = epoch, epochs

    def check(self) -> None:
        """Stop the run if this is the boundary.

        Raises:
            RunStopped: It is.
        """
        if not self.due or self.was_asked:
            return
        if self.asks_script and (self.ask or _send_signal)():  # on all ranks at the same boundary
            self.was_asked = True
            return
        raise RunStopped(f"stopped at boundary {self.count}")

    def measure(self) -> float:
        """Return boundaries a second since the last call."""
        count, moment = self._marked
        now = time.monotonic()
        if now - moment > 0.2:
            self.rate = (self.count - count) / (now - moment)
            self._marked = (self.count, now)
        elif not self.rate and now > moment:  # a stop may be requested right after the start
            return (self.count - count) / (now - moment)
        return self.rate


def _send_signal() -> bool:
    """Send this process SIGTERM, if the script listens to it."""
    if not callable(signal.getsignal(signal.SIGTERM)):
        return False
    signal.raise_signal(signal.SIGTERM)
    return True


class Edge:
    """Keeps this rank before its training until the run continues on it.

    Args:
        enter: Makes this rank one of an execution, and returns the log of that.
    """

    def __init__(self, enter: Callable[[str], RunLog]) -> None:
        self._enter = enter
        self._event = threading.Event()
        self._execution = ""

    def open(self, execution: str) -> None:
        """Let the rank continue as one of ``execution``; may be called from another thread."""
        self._execution = execution
        self._event.set()

    def wait(self) -> RunLog:
        """Wait until the run continues here; an interrupt ends the wait."""
        while not self._event.wait(LOOK_SECONDS):
            pass
        return self._enter(self._execution)
