"""Ask a run to stop, the one that is named or the one that goes on."""

from __future__ import annotations

from workbench.core.run import Run
from workbench.errors import StateError
from workbench.store import Store
from workbench.view.care import keep_awake


def ask_stop(store: Store, name: str | None, cluster: str) -> Run:
    """Wish for a run to stop, unless it has ended, and return it as it was.

    Args:
        name: Its name or id; None for the run of ``cluster`` that goes on.

    Raises:
        StateError: There is no such run.
    """
    unfinished = store.unfinished(cluster)
    if not name and not unfinished:
        raise StateError(
            f"No run of cluster {cluster!r} is going on; "
            "%dist_runs or `workbench runs` lists those that have ended."
        )
    run = store.run(name) if name else unfinished[0]
    if not run.fact.state.ended:
        store.wish_stop(run.id)
        keep_awake(store, run.wish.cluster)
    return run


def stop_line(run: Run) -> str:
    """Say what became of the wish for ``run``, as ``ask_stop`` returned it, to stop."""
    name, state = run.wish.name, run.fact.state
    if state.ended:
        return f"Run {name!r} had ended already ({state})."
    return f"Asked run {name!r} to stop."
