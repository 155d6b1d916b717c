"""Follow a run until it has ended, and see that its supervisor stays awake meanwhile."""

from __future__ import annotations

import time
from collections.abc import Callable

from workbench.core.run import Run, RunState
from workbench.errors import ClusterError, RunFailed
from workbench.notebook.interrupts import Interrupts
from workbench.notebook.run_view import RunView
from workbench.notebook.waiting import hopeless
from workbench.store import Store
from workbench.store.wishes import supervisor_is_awake, wake_supervisor

POLL_SECONDS = 0.05
READ_SECONDS = 0.3
CARE_SECONDS = 1.0
# A supervisor that was just woken needs a moment to take its lock.
WAKING_SECONDS = 5.0


class Care:
    """Wakes the supervisor of ``cluster`` again when it has died."""

    def __init__(self, cluster: str, now: float) -> None:
        self._cluster = cluster
        self._next = now + CARE_SECONDS

    def look(self, now: float) -> bool:
        """Look, about once a second; return whether the supervisor had to be woken."""
        if now < self._next:
            return False
        self._next = now + CARE_SECONDS
        if supervisor_is_awake(self._cluster):
            return False
        wake_supervisor(self._cluster)
        self._next = now + WAKING_SECONDS
        return True


def follow(
    store: Store,
    view: RunView,
    *,
    interrupts: Interrupts | None = None,
    left: Callable[[], bool] = lambda: False,
) -> Run:
    """Keep ``view`` up to date until its run has ended, and return the run.

    Args:
        interrupts: The first of them writes the wish to stop.
        left: Says when to follow no longer, though the run goes on.

    Raises:
        ClusterError: The run cannot begin, because the cluster failed.
        KeyboardInterrupt: At the second interrupt.
    """
    run = view.record.run
    begun = time.time()
    care = Care(run.wish.cluster, begun)
    seen, due, asked = -1, 0.0, False
    view.record.look(store)
    view.draw(begun)  # first, so that state and curves stand above the output
    while not left():
        now = time.time()
        if interrupts and interrupts.count and not asked:
            asked = True
            store.wish_stop(run.id)
            view.remark = "asked to stop; interrupt again to leave it to itself"
        version = store.data_version()
        if version != seen and now >= due:
            # A short cell is over when it is over; a long one is not worth reading that often.
            seen, due = version, now + min(READ_SECONDS, (now - begun) / 10)
            view.read(store)
        run = view.record.run
        if run.fact.state.ended:
            view.remark = ""
            view.finish(store, now)
            return run
        _check_hope(store, view, now)
        view.draw(now)
        if care.look(now):
            view.remark = "its supervisor had died and was started again"
        time.sleep(POLL_SECONDS)
    return run


def conclude(run: Run) -> None:
    """Say how a run ended.

    Raises:
        RunFailed: A rank failed, or the run was lost.
    """
    fact = run.fact
    if fact.state is RunState.STOPPED:
        print(f"{run.wish.name}: stopped at iteration {fact.iteration:,}.")
    elif fact.state is RunState.FAILED:
        host = f" on {fact.failed_host}" if fact.failed_host else ""
        where = f"Run {run.wish.name!r} failed on rank {fact.failed_rank}{host}."
        raise RunFailed(fact.message or where, fact.error)
    elif fact.state is RunState.LOST:
        raise RunFailed(fact.message or f"Run {run.wish.name!r} was lost.", fact.error)


def _check_hope(store: Store, view: RunView, now: float) -> None:
    verdict = hopeless(view.record, now)
    if verdict:
        # Otherwise it would begin, to everyone's surprise, when the cluster is mended some day.
        store.wish_stop(view.record.run.id)
        view.remark = verdict
        view.draw(now)
        raise ClusterError(verdict)
