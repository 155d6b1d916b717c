"""Say before a resize what it means for the run that trains now."""

from __future__ import annotations

from workbench.core.cluster.resize_time import ResizeAt
from workbench.core.run.departure import has_no_epochs
from workbench.core.run.resumption import can_move, is_resumable
from workbench.requests.cluster import training_run
from workbench.store import Store
from workbench.view.phrase import Phrase, phrase


def resize_effect(store: Store, cluster: str, at: ResizeAt = ResizeAt.STEP) -> Phrase | None:
    """Return what a resize of ``cluster`` means for its run; None if no run is on its ranks."""
    run = training_run(store, cluster)
    if run is None:
        return None
    if not is_resumable(run.wish.kind) or at is ResizeAt.END:
        return phrase("A resize waits for the end of run %1.", run.wish.name)
    if not can_move(run.wish.kind, store.newest_snapshot(run.id)):
        return phrase(
            "A resize waits for the first snapshot of run %1, or for its end if it saves none; "
            "loops of workbench.elastic save them.",
            run.wish.name,
        )
    if run.fact.hindrance:
        return phrase("A resize waits for the end of run %1. %2", run.wish.name, run.fact.hindrance)
    if at is ResizeAt.STEP or has_no_epochs(run.fact):
        return phrase(
            "Run %1 moves to the new ranks at its next iteration, when these are ready.",
            run.wish.name,
        )
    return phrase(
        "Run %1 moves to the new ranks at the end of its epoch, when these are ready.",
        run.wish.name,
    )
