"""Count interrupts instead of raising at once: the first requests a stop, a second leaves."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable
from types import FrameType
from typing import Any


class Interrupts:
    """A context in which the first SIGINT is recorded, and one after the stop request leaves.

    To leave is to raise KeyboardInterrupt. It has no effect outside the main thread, which alone
    gets signals.

    Args:
        reprieve: Seconds for which a single interrupt may turn out not to be the user's. A second
            interrupt ends this wait.
        is_settled: Returns, after that time, whether the interrupt is the user's.
    """

    def __init__(
        self, reprieve: float = 0.0, is_settled: Callable[[], bool] = lambda: True
    ) -> None:
        self.count = 0
        self.first = 0.0  # by time.monotonic()
        self.asked = False
        """Whether the stop was requested."""
        self._reprieve = reprieve
        self._is_settled = is_settled
        self._former: Any = None
        # Held, and released by an interrupt: a signal handler may do that, but not set an Event.
        self._none_came = threading.Lock()
        self._none_came.acquire()

    def __enter__(self) -> Interrupts:
        if threading.current_thread() is threading.main_thread():
            self._former = signal.signal(signal.SIGINT, self._note)
        return self

    def __exit__(self, *_: object) -> None:
        if self._former is not None:
            signal.signal(signal.SIGINT, self._former)

    def wait(self, seconds: float) -> None:
        """Wait, until an interrupt comes if that is sooner."""
        self._none_came.acquire(timeout=seconds)

    def is_pending(self, now: float, seconds: float) -> bool:
        """Return whether an interrupt is ``seconds`` old, and no stop was requested."""
        return bool(self.count) and not self.asked and now - self.first >= seconds

    def is_meant(self, now: float) -> bool:
        """Return whether the user interrupted, and no stop was requested yet.

        Args:
            now: By ``time.monotonic()``.
        """
        if self.asked or not self.count:
            return False
        return self.count > 1 or (now - self.first >= self._reprieve and self._is_settled())

    def _note(self, number: int, frame: FrameType | None) -> None:
        self.count += 1
        self.first = self.first or time.monotonic()
        if self._none_came.locked():
            self._none_came.release()
        noted = 2 if self._reprieve and not self.asked else 1
        if self.count > noted:
            raise KeyboardInterrupt
