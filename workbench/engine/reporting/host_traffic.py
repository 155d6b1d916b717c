"""Measure what the network of this host carries: ranks that wait for a transfer are not stuck."""

from __future__ import annotations

import time
from pathlib import Path

INTERFACES = Path("/proc/self/net/dev")


class HostTraffic:
    """The traffic of all interfaces of this host, loopback included."""

    def __init__(self) -> None:
        self._last = (time.monotonic(), 0)

    def measure(self) -> float:
        """Return bytes per second since the last call, both ways together; 0 if unknown."""
        now, total = time.monotonic(), _total()
        (moment, before), self._last = self._last, (now, total)
        return max(0, total - before) / max(now - moment, 1e-3) if before else 0.0


def _total() -> int:
    try:
        lines = INTERFACES.read_text(encoding="utf-8").splitlines()[2:]
    except OSError:
        return 0
    # <https://docs.kernel.org/filesystems/proc.html>: bytes received are 1st, those sent are 9th.
    rows = [line.partition(":")[2].split() for line in lines]
    return sum(int(row[0]) + int(row[8]) for row in rows if len(row) > 8)
