"""Compute that is slept, so that ranks that share cores take as long as on cores of their own."""

from __future__ import annotations

import math
import time
from typing import Any

import chainer


class Pause(chainer.FunctionNode):
    """Takes its time, a third of it in the forward pass; what was computed meanwhile counts."""

    until = 0.0
    slack = math.inf
    """Seconds that are made up for at most, where others made a sleep longer."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds

    def _sleep(self, seconds: float) -> None:
        Pause.until = max(Pause.until, time.perf_counter() - Pause.slack) + seconds
        time.sleep(max(0.0, Pause.until - time.perf_counter()))

    def forward(self, inputs: Any) -> Any:
        self._sleep(self._seconds / 3)
        return inputs

    def backward(self, indexes: Any, gradients: Any) -> Any:
        self._sleep(self._seconds * 2 / 3)
        return gradients
