"""Decide when a node without a lease ends itself after its boot.

The supervisor must log in within ``BOOT_SECONDS`` of the boot. From the first login on, it leaves
signs of life on the node, also while a long installation runs: the node ends when no sign has come
for the duration of a lease. A lease takes over from the last sign. So a node that is being set up
does not end itself, and a supervisor that dies leaves no node for longer than a lease.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

# Without a login by then, the node ends. A cold disk and a busy supervisor take minutes.
BOOT_SECONDS = 1200.0
_SIGN = re.compile(r"([0-9]{1,12}) ([0-9]{1,12}) ([0-9]{1,12})\n?", re.ASCII)


@dataclass(frozen=True)
class BootSign:
    """A sign of life from the supervisor.

    Args:
        uptime: Whole seconds since the node's boot when it was left, by the node's own clock.
        seconds: How long it is valid.
        expires: Epoch seconds at which the node ends in any case; 0 for never.
    """

    uptime: int
    seconds: int
    expires: int = 0


def read_sign(text: str) -> BootSign | None:
    """Return the sign of life in a node's file; None for any other text."""
    found = _SIGN.fullmatch(text)
    return BootSign(*map(int, found.groups())) if found else None


def is_over(
    up: int,
    now: float,
    sign: BootSign | None,
    *,
    start: int,
    boot_seconds: float = BOOT_SECONDS,
    expires: float = 0.0,
) -> bool:
    """Return whether a node without a lease ends itself now, as ``userdata.watch`` does.

    Args:
        up: Whole seconds since the node's boot.
        now: Epoch seconds.
        sign: The last sign of life; one with a future time is ignored.
        start: Seconds from the boot to the start of the watch.
        boot_seconds: Seconds from then within which the supervisor must log in.
        expires: Epoch seconds at which it ends in any case, as known at its boot; 0 for never. The
            value in a sign is newer.
    """
    if sign is not None and sign.uptime <= up:
        start, boot_seconds, expires = sign.uptime, sign.seconds, sign.expires
    return up - start >= boot_seconds or 0 < expires <= now
