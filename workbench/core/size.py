"""Bytes, and bytes a second, as a person reads them."""

from __future__ import annotations

_UNITS = ("B", "kB", "MB", "GB", "TB")


def size_text(nbytes: float) -> str:
    """Return a number of bytes in three digits and a decimal unit: ``16.4 MB``."""
    unit = 0
    while nbytes >= 999.5 and unit < len(_UNITS) - 1:
        nbytes, unit = nbytes / 1000, unit + 1
    text = f"{nbytes:.0f}" if unit == 0 or nbytes >= 99.95 else f"{nbytes:.3g}"
    return f"{text} {_UNITS[unit]}"


def gbits(bandwidth: float) -> str:
    """Return bytes a second as Gbit/s, in three digits or more: ``1.44``, ``2,880``."""
    rate = 8e-9 * bandwidth
    return f"{rate:.3g}" if rate < 999.5 else f"{rate:,.0f}"
