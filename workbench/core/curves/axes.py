"""Choose the range of a vertical axis, by the same rule as ``extension/src/run/axes.ts``."""

from __future__ import annotations

import math

from workbench.core.run.metrics import is_share

_MARGIN = 0.06
_CONSTANT_MARGIN = 0.1  # share of a constant, on both sides of it


def axis_of(quantity: str, low: float, high: float) -> tuple[float, float]:
    """Return the ends of an axis that shows values from ``low`` to ``high``.

    There is a margin within the possible values: a share is between 0 and 1, or 0 and 100.
    """
    margin = _MARGIN * (high - low) or _CONSTANT_MARGIN * abs(high) or 1.0
    floor, ceiling = _possible(quantity, low, high)
    return max(floor, low - margin), min(ceiling, high + margin)


def _possible(quantity: str, low: float, high: float) -> tuple[float, float]:
    if low < 0:
        return -math.inf, math.inf
    whole = 1.0 if high <= 1 else 100.0 if high <= 100 else math.inf
    return 0.0, whole if is_share(quantity) else math.inf
