"""Make the conclusion of a run when it ends: once, and the same for all views."""

from __future__ import annotations

import contextlib

from workbench.analysis.run_goodput import goodput_sentences
from workbench.core.run.conclusion import Conclusion
from workbench.core.run.model import Run
from workbench.errors import StoreError
from workbench.store import Store


def concluded(store: Store, run: Run) -> Conclusion:
    """Return the conclusion of an ended run; the first caller computes and stores it.

    The supervisor does this when a run ends, if it is alive then.
    """
    if kept := store.reports.conclusion(run.id):
        return kept
    found = _conclude(store, run)
    with contextlib.suppress(StoreError):  # a full disk must not prevent reading
        return store.reports.keep_conclusion(run.id, found)
    return found


def _conclude(store: Store, run: Run) -> Conclusion:
    if not store.reports.steps(run.id):
        says = goodput_sentences(store, run, run.fact.ended)
        return Conclusion(store.reports.final_values(run.id), says=says)
    # Slow to import: a supervisor's start and a cell that only prints do not wait for it.
    from workbench.analysis.step_conclusion import conclude

    return conclude(store, run)
