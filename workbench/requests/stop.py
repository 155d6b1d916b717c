"""Request that a run stops: the named one, or the one that is running."""

from __future__ import annotations

from workbench.core.run.model import Run
from workbench.errors import StateError
from workbench.requests.keep_awake import keep_awake
from workbench.store import Store


def ask_stop(store: Store, name: str | None, cluster: str) -> Run:
    """Request that a run stops, unless it has ended; return it as it was before.

    Args:
        name: Its name or id; None for the current run of ``cluster``.

    Raises:
        StateError: There is no such run.
    """
    unfinished = store.unfinished(cluster)
    if not name and not unfinished:
        raise StateError(
            f"No run of cluster {cluster!r} is active; list earlier runs with `workbench runs`."
        )
    run = store.run(name) if name else unfinished[0]
    if not run.fact.state.ended:
        store.wish_stop(run.id)
        keep_awake(store, run.wish.cluster)
    return run


def stop_line(run: Run) -> str:
    """Return the result of a stop request, for the run that ``ask_stop`` returned."""
    name, state = run.wish.name, run.fact.state
    if state.ended:
        return f"Run {name!r} had ended already ({state})."
    return f"Asked run {name!r} to stop."
