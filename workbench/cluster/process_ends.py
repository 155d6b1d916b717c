"""Descriptors of processes, which can be read once these have ended."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Collection


class ProcessEnds:
    """Watches processes of this machine, each until it has ended.

    Args:
        begin: Called with a descriptor to wait for.
        end: Called with it before it is closed.
    """

    def __init__(self, begin: Callable[[int], None], end: Callable[[int], None]) -> None:
        self._begin = begin
        self._end = end
        self._descriptors: dict[int, int] = {}  # by process id; -1 once it has ended
        self._is_forgotten = False  # whether a process was found to have ended otherwise

    def __repr__(self) -> str:
        return f"<ProcessEnds of {len(self._descriptors)} processes>"

    def watch(self, pid: int) -> None:
        """Watch a process that runs, unless it is watched; nothing happens if it cannot be."""
        if pid in self._descriptors:
            return
        with contextlib.suppress(OSError):
            self._descriptors[pid] = os.pidfd_open(pid)
            self._begin(self._descriptors[pid])

    def take(self, readable: Collection[int]) -> bool:
        """Return whether a process has ended since the last call.

        Args:
            readable: The descriptors that can be read.
        """
        ended = [pid for pid, one in self._descriptors.items() if one in readable]
        for pid in ended:
            self._close(pid)
            self._descriptors[pid] = -1
        is_forgotten, self._is_forgotten = self._is_forgotten, False
        return bool(ended) or is_forgotten

    def forget(self, pid: int) -> None:
        """Watch it no longer: it is known to have ended, and its id may be used again."""
        self._is_forgotten |= self._descriptors.get(pid, -1) >= 0
        self._close(pid)
        self._descriptors.pop(pid, None)

    def _close(self, pid: int) -> None:
        descriptor = self._descriptors.get(pid, -1)
        if descriptor >= 0:
            self._end(descriptor)
            os.close(descriptor)
