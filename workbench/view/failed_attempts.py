"""List the attempts of a run that failed and were tried again."""

from __future__ import annotations

from workbench.core.run.model import Run
from workbench.store import Store


def failed_attempts(store: Store, run: Run) -> tuple[str, ...]:
    """Return a line for each attempt of a run that failed and was followed by another, in order."""
    past = store.attempts.past(run.id) if run.fact.attempt > 1 else []
    return tuple(
        f"Attempt {one.number:,} failed at iteration {one.failed_at:,}: "
        f"{one.failure or one.message}"
        for one in past
        if one.failed
    )
