"""Read from a stop trigger how long a training is."""

from __future__ import annotations

from typing import Any


def training_length(trigger: Any) -> tuple[int, float]:
    """Return the total (iterations, epochs); 0 for what the stop trigger does not have."""
    period, unit = getattr(trigger, "period", None), getattr(trigger, "unit", None)
    if period is None:  # triggers that wrap another one, such as EarlyStoppingTrigger
        return (
            training_length(trigger._max_trigger) if hasattr(trigger, "_max_trigger") else (0, 0.0)
        )
    return (int(period), 0.0) if unit == "iteration" else (0, float(period))
