"""List the attempts of a run that failed and were tried again."""

from __future__ import annotations

from workbench.core.run.model import Run
from workbench.store import Store
from workbench.view.phrase import Phrase, phrase


def failed_attempts(store: Store, run: Run) -> tuple[Phrase, ...]:
    """Return a line for each attempt of a run that failed and was followed by another, in order."""
    past = store.attempts(run.id) if run.fact.attempt > 1 else []
    return tuple(
        phrase(
            "Attempt %1 failed at iteration %2: %3",
            ("count", one.number),
            ("count", one.failed_at),
            one.failure or one.message,
        )
        for one in past
        if one.failed
    )
