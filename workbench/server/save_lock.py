"""A lock for pages that save a notebook, so that no two save it at the same time.

A page checks the file before it saves. Two that save at once would each find the file changed by
the other, and ask the user about it.
"""

from __future__ import annotations

from dataclasses import dataclass

SAVE_LOCK_SECONDS = 30.0  # the longest time that a closed page can block others


@dataclass(frozen=True)
class SaveLock:
    """The holder of the lock, and when it expires."""

    holder: str
    until: float


class SaveLocks:
    """The locks of all notebooks; times are seconds of any clock.

    Args:
        seconds: After which a lock expires.
    """

    def __init__(self, seconds: float = SAVE_LOCK_SECONDS) -> None:
        self.seconds = seconds
        self._turns: dict[str, SaveLock] = {}

    def __repr__(self) -> str:
        return f"<SaveLocks at {len(self._turns)} notebooks>"

    def take(self, holder: str, path: str, now: float) -> bool:
        """Take the lock of a notebook for ``holder``; return False if another has it."""
        self._turns = {path: turn for path, turn in self._turns.items() if turn.until > now}
        turn = self._turns.setdefault(path, SaveLock(holder, now + self.seconds))
        return turn.holder == holder

    def end(self, holder: str) -> None:
        """Release all locks of ``holder``."""
        self._turns = {path: turn for path, turn in self._turns.items() if turn.holder != holder}
