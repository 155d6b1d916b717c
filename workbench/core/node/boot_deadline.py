"""Decide when a node without a lease ends itself after its boot.

From its boot on somebody has to log in within ``BOOT_SECONDS``. From the first log-in on the
supervisor leaves a sign on the node, again and again, also while that installs for an hour: the
node ends when no sign has come for as long as a lease would run. A lease takes over from the last
sign. So a node that is being set up does not end itself, and a supervisor that dies leaves none
for longer than a lease runs.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

# Nobody has logged in by then: the node ends. A cold disk and a busy supervisor take minutes.
BOOT_SECONDS = 1200.0
_SIGN = re.compile(r"([0-9]{1,12}) ([0-9]{1,12}) ([0-9]{1,12})\n?", re.ASCII)


@dataclass(frozen=True)
class Sign:
    """What a supervisor leaves on a node that it attends to.

    Args:
        uptime: Whole seconds since the node's boot at which it was left, by the node's own clock.
        seconds: For how long it holds.
        expires: Epoch seconds at which the node ends in any case; 0 for never.
    """

    uptime: int
    seconds: int
    expires: int = 0


def read_sign(text: str) -> Sign | None:
    """Return the sign that a node's file holds; None for any other text."""
    found = _SIGN.fullmatch(text)
    return Sign(*map(int, found.groups())) if found else None


def is_over(
    up: int,
    now: float,
    sign: Sign | None,
    *,
    start: int,
    boot_seconds: float = BOOT_SECONDS,
    expires: float = 0.0,
) -> bool:
    """Whether a node without a lease ends itself now; ``cloud.userdata.watch`` does the same.

    Args:
        up: Seconds since the node's boot, whole.
        now: Epoch seconds.
        sign: The last one that was left; one of the future counts for nothing.
        start: Seconds since the boot at which the watch began.
        boot_seconds: From then until somebody has to have come.
        expires: Epoch seconds at which it ends in any case, as was known at its boot; 0 for never.
            What a sign says of it is newer.
    """
    if sign is not None and sign.uptime <= up:
        start, boot_seconds, expires = sign.uptime, sign.seconds, sign.expires
    return up - start >= boot_seconds or 0 < expires <= now
