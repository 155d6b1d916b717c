"""Delete runs: which ones, what goes with them, and how much space it freed."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Sequence
from functools import partial

from workbench.core.recovery.retention import KeptRun, choose_runs
from workbench.core.units import size_text
from workbench.errors import StateError, StoreFull, StoreUnavailable
from workbench.requests.supervisor import supervisor_is_awake
from workbench.store.disk import with_reserve
from workbench.store.store import Store

MOST_NAMED = 5


def find_chosen(
    store: Store,
    names: Sequence[str] = (),
    *,
    older: float | None = None,
    larger: int | None = None,
    keep: int | None = None,
) -> list[KeptRun]:
    """Return the selected ended runs, newest first.

    Args:
        store: Where they are.
        names: Names or ids; empty for all.
        older: Seconds since they ended.
        larger: Bytes that they take at least.
        keep: Number of the newest runs to keep.

    Raises:
        InputError: No criterion was given.
        Unknown: No run has one of the names.
        StateError: A named run has not ended.
    """
    named = [store.run(name) for name in names]
    for run in named:
        if not run.fact.state.ended:
            raise StateError(
                f"Run {run.wish.name!r} is {run.fact.state}", "stop it first (`workbench stop`)."
            )
    ids = [run.id for run in named]
    choose = partial(choose_runs, names=ids, older=older, larger=larger, keep=keep)
    choose([], now=0.0)
    return choose(store.removal.list_kept(ids), now=time.time())


def what_goes(runs: Sequence[KeptRun]) -> str:
    """Return one sentence on what is deleted with ``runs``."""
    names = ", ".join(run.name for run in runs[:MOST_NAMED])
    more = f" and {len(runs) - MOST_NAMED:,} more" if len(runs) > MOST_NAMED else ""
    what = "run" if len(runs) == 1 else "runs"
    size = size_text(sum(run.nbytes for run in runs))
    return (
        f"{len(runs):,} {what} ({names}{more}), about {size}: curves, output, snapshots on every "
        "node, and their files in the data directory."
    )


def delete_runs(
    store: Store, runs: Sequence[KeptRun], report: Callable[[str], None] = lambda text: None
) -> str:
    """Delete runs permanently, and return one sentence on the freed space.

    Args:
        store: Where they are.
        runs: The runs; only ended ones are deleted.
        report: Called with the progress.

    Raises:
        StoreError: A folder cannot be removed; earlier deletions are complete.
    """
    before = store.removal.usage()
    gone = [run for run in runs if _doom(store, run.id)]
    while with_reserve(store.path, store.removal.sweep):
        left = store.removal.usage().nbytes
        report(f"{size_text(max(0, before.nbytes - left))} freed")
    if not any(supervisor_is_awake(wish.name) for wish in store.clusters()):
        with contextlib.suppress(StoreUnavailable):
            store.removal.compact()
    after = store.removal.usage()
    disk = max(0, before.store + before.runs - after.store - after.runs)
    rest = max(0, before.nbytes - after.nbytes - disk)
    inside = f"; {size_text(rest)} more are free inside the store for new runs" if rest else ""
    what = "run" if len(gone) == 1 else "runs"
    return f"Deleted {len(gone):,} {what}; {size_text(disk)} of disk space freed{inside}."


def _doom(store: Store, run: str) -> bool:
    try:
        return with_reserve(store.path, partial(store.removal.delete_run, run))
    except StoreFull:  # its files may be what fills the disk
        store.removal.remove_folder(run)
        return store.removal.delete_run(run)
