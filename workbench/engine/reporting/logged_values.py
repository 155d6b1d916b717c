"""Make what a framework logs into values of the run, and what it plans into its length.

Losses, rates and iterations are seen at its loop; this is for what it logs beside them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec.structs import replace

from workbench.engine.run_context import current

# The loop's own curves have these, at every step.
_SEEN = frozenset({"loss", "lr", "learning_rate", "epoch", "step", "total_flos"})


def report_logged(values: Mapping[str, Any]) -> None:
    """Report what a framework logs at the present iteration, as far as it is numbers."""
    if (run := current()) is None:
        return
    numbers = [
        (name, number)
        for name, value in values.items()
        if name not in _SEEN | run.own_names and (number := _number(value)) is not None
    ]
    if numbers:
        run.log.add_all(run.iteration, tuple(numbers))


def plan(iterations: float, epochs: float) -> None:
    """Note how many iterations and epochs a framework plans; infinite or below 1 is unknown."""
    if (run := current()) is None:
        return
    known = [one if 0 < one < float("inf") else 0 for one in (iterations, epochs)]
    run.log.progress = replace(
        run.log.progress, iterations_total=int(known[0]), epochs_total=float(known[1])
    )


def _number(value: Any) -> float | None:
    """Return a value's number; None if it has none."""
    size = getattr(value, "numel", None)
    if isinstance(value, bool | str) or (callable(size) and size() != 1):
        return None
    try:
        return float(value.detach() if hasattr(value, "detach") else value)
    except (TypeError, ValueError, RuntimeError):
        return None
