"""Count interrupts instead of being torn by them: the first one asks, the second one leaves."""

from __future__ import annotations

import signal
import threading
import time
from types import FrameType
from typing import Any


class Interrupts:
    """While entered, the first SIGINT is noted and the second raises KeyboardInterrupt.

    In any thread but the main one it does nothing: signals do not get there.
    """

    def __init__(self) -> None:
        self.count = 0
        self.first = 0.0  # epoch seconds
        self._former: Any = None

    def __enter__(self) -> Interrupts:
        if threading.current_thread() is threading.main_thread():
            self._former = signal.signal(signal.SIGINT, self._note)
        return self

    def __exit__(self, *_: object) -> None:
        if self._former is not None:
            signal.signal(signal.SIGINT, self._former)

    def _note(self, number: int, frame: FrameType | None) -> None:
        self.count += 1
        self.first = self.first or time.time()
        if self.count > 1:
            raise KeyboardInterrupt
