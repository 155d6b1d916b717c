"""Format numbers for people: one rule for each quantity.

`extension/src/run/numbers.ts` has the same rules, and `tests/core/units.json` tests both.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable
from decimal import ROUND_HALF_UP, Decimal

_BYTES = ("B", "kB", "MB", "GB", "TB")
_SHORT = (("µs", 1e-6, 999.5), ("ms", 1e-3, 999.5), ("s", 1.0, 59.5))


def dollars(amount: float, unit: str = "") -> str:
    """Return an amount of money: with cents, or two significant digits below ten cents.

    So ``$12.40``, ``$0.31``, ``$0.08``, ``$0.014``, ``$0.0013``; only zero is ``$0.00``.

    Args:
        unit: What is charged in place of money: ``12.4 core-hours``.
    """
    if unit:
        return f"{number(amount, 3)} {unit}"
    return f"${_format_fixed(amount, max(2, _places(amount, 2)), least=2)}"


def hourly(price: float, unit: str = "") -> str:
    """Return an hourly price by the rule of ``dollars``: ``$0.11/h``."""
    return f"{dollars(price, unit)}/h"


def duration(seconds: float) -> str:
    """Return a length of time in its largest unit, with a tenth below ten units.

    So ``76 µs``, ``5.6 ms``, ``4.1 s``, ``41 s``. From a minute on it has two units, without
    seconds from ten minutes on: ``1 min 5 s``, ``12 min``, ``1 h 30 min``.
    """
    seconds = max(0.0, seconds)
    for unit, size, limit in _SHORT:
        amount = seconds / size
        if seconds and amount < limit:
            places = int(amount < 9.95)
            return f"{_format_fixed(amount, places, least=places)} {unit}"
    minutes, rest = divmod(round(seconds), 60)
    if not minutes:
        return "0 s"
    if minutes < 10:
        return f"{minutes} min {rest} s" if rest else f"{minutes} min"
    hours, minutes = divmod(int(_format_fixed(seconds / 60, 0).replace(",", "")), 60)
    if not hours:
        return f"{minutes} min"
    return f"{hours:,} h {minutes} min" if minutes else f"{hours:,} h"


def number(value: float, digits: int = 4) -> str:
    """Return a value with four significant digits; above a thousand, as a whole number.

    So ``0.01482``, ``12.5``, ``1,235``; ``8.78e-5`` below a ten-thousandth, ``1.2e7`` from ten
    million on.
    """
    if not math.isfinite(value):
        return str(value)
    if not value or 1e-4 <= abs(value) < 1e7:
        return _format_fixed(value, max(0, _places(value, digits)))
    exponent = Decimal(repr(float(value))).adjusted()
    factor = _format_fixed(float(Decimal(repr(float(value))).scaleb(-exponent)), digits - 1)
    return f"1e{exponent + 1}" if factor == "10" else f"{factor}e{exponent}"


def milliseconds(seconds: float, longest: float = 0.0) -> str:
    """Return milliseconds without the unit, with the same number of decimals as ``longest``.

    Args:
        longest: Seconds of the longest value in the same column, which has three digits.
    """
    places = min(6, max(0, _places(1000 * (longest or seconds), 3)))
    return _format_fixed(1000 * seconds, places, least=places)


def microseconds(seconds: float) -> str:
    """Return microseconds, without the unit, in three significant digits."""
    return number(1e6 * seconds, 3)


def percent_of(share: float) -> str:
    """Return a share of one in percent, rounded down: only a complete one is ``100 %``."""
    return f"{math.floor(100 * share + 1e-9):,} %"


def _places(value: float, digits: int) -> int:
    """Return the decimals that give so many significant digits; negative for large values."""
    return digits - 1 - Decimal(repr(float(value))).adjusted() if value else 0


def _format_fixed(value: float, places: int, least: int = 0) -> str:
    """Return a value rounded half up, without trailing zeros beyond ``least`` decimals."""
    exact = Decimal(repr(float(value))).quantize(Decimal(1).scaleb(-places), ROUND_HALF_UP)
    whole, _, part = f"{exact:,f}".partition(".")
    part = part.rstrip("0").ljust(min(least, places), "0")
    return f"{whole}.{part}" if part else whole


def size_text(nbytes: float) -> str:
    """Return bytes with three significant digits and a decimal unit: ``16.4 MB``."""
    unit = 0
    while nbytes >= 999.5 and unit < len(_BYTES) - 1:
        nbytes, unit = nbytes / 1000, unit + 1
    return f"{number(nbytes, 3)} {_BYTES[unit]}"


def gbits(bandwidth: float) -> str:
    """Return bytes per second as Gbit/s without the unit, in three digits: ``1.44``, ``2,880``."""
    return number(8e-9 * bandwidth, 3)


def rank_ranges(ranks: Collection[int]) -> str:
    """Return ranks as text: ``rank 0``, ``ranks 0-3`` or ``ranks 0, 2-3``."""
    return f"{'rank' if len(set(ranks)) == 1 else 'ranks'} {rank_numbers(ranks)}"


def rank_numbers(ranks: Iterable[int]) -> str:
    """Return the numbers of ranks as text: ``0``, ``0-3`` or ``0, 2-3``."""
    ordered = sorted(set(ranks))
    spans: list[list[int]] = []
    for rank in ordered:
        if spans and rank == spans[-1][1] + 1:
            spans[-1][1] = rank
        else:
            spans.append([rank, rank])
    return ", ".join(f"{a}" if a == b else f"{a}-{b}" for a, b in spans)


def count(amount: int, thing: str) -> str:
    """Return a number with its noun: ``1 rank``, ``2 ranks``."""
    return f"{amount:,} {thing}" if amount == 1 else f"{amount:,} {thing}s"
