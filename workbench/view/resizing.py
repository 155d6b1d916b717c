"""Say before a resize what it means for the run that trains now."""

from __future__ import annotations

from workbench.core.run.model import RunState
from workbench.core.run.resumption import can_move, is_resumable
from workbench.store import Store
from workbench.view.phrase import Phrase, phrase

_BUSY = (RunState.SUBMITTED, RunState.RUNNING)


def resize_effect(store: Store, cluster: str) -> Phrase | None:
    """Return what a resize of ``cluster`` means for its run; None if no run is on its ranks."""
    runs = (one for one in store.unfinished(cluster) if not one.wish.kind.prepares)
    run = next((one for one in runs if one.fact.state in _BUSY and not one.wish.stop), None)
    if run is None:
        return None
    if not is_resumable(run.wish.kind):
        return phrase("A resize waits for the end of run %1.", run.wish.name)
    if can_move(run.wish.kind, store.newest_snapshot(run.id)):
        return phrase(
            "Run %1 moves to the new ranks at its next iteration, when these are ready.",
            run.wish.name,
        )
    return phrase(
        "A resize waits for the first snapshot of run %1, or for its end if it saves none; "
        "loops of workbench.elastic save them.",
        run.wish.name,
    )
