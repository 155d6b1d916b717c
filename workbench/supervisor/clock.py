"""Read both clocks of this machine."""

from __future__ import annotations

import time

from workbench.core.moment import Moment

# Not every system has a clock that also counts while it is suspended.
_STEADY = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


def moment() -> Moment:
    """Return the present moment."""
    return Moment(time.time(), time.clock_gettime(_STEADY))
