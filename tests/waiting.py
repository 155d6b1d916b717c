"""Wait for what other threads and processes do."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


def until(
    look: Callable[[], T],
    *,
    what: str = "it",
    said: Callable[[], object] = str,
    seconds: float = 60.0,
    pause: float = 0.02,
) -> T:
    """Return what ``look`` finds, once that is something true.

    Args:
        what: What is awaited, for the error.
        said: What the error shows beside it.
        seconds: The longest wait.
        pause: Seconds between two looks.
    """
    deadline = time.monotonic() + seconds
    while not (found := look()):
        assert time.monotonic() < deadline, f"{what}: not within {seconds:g} s; {said()}"
        time.sleep(pause)
    return found
