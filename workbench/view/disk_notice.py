"""Messages when the store's disk is full, and when it has space again."""

from __future__ import annotations

from pathlib import Path

from workbench.store.disk import full_disk

LOOK_SECONDS = 1.0


class Room:
    """Checks the disk of a store periodically.

    Args:
        store: The store's file.
    """

    def __init__(self, store: Path) -> None:
        self._store = store
        self._next = 0.0
        self._was_full = False

    def look(self, now: float) -> str:
        """Return a sentence when the state has changed, else None.

        Args:
            now: Seconds of a monotonic clock.
        """
        if now < self._next:
            return ""
        self._next = now + LOOK_SECONDS
        said = full_disk(self._store)
        changed, self._was_full = bool(said) != self._was_full, bool(said)
        if not changed:
            return ""
        return said or f"The disk of {self._store.parent} has free space again."
