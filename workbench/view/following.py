"""Follow a run until it has ended, and see that its supervisor stays awake meanwhile."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Protocol

from workbench.core.run import Run, RunState
from workbench.errors import ClusterError, RunFailed
from workbench.store import Store
from workbench.view.care import Care
from workbench.view.interrupts import Interrupts
from workbench.view.record import Record
from workbench.view.waiting import hopeless

POLL_SECONDS = 0.05
READ_SECONDS = 0.1
# A Jupyter server interrupts a kernel right before it has it end; `left` says so by then.
HESITATION_SECONDS = 0.3
ASKED = "Asked the ranks to stop; interrupt again to leave them to it."
WOKEN = "The supervisor had ended and was started again."


class View(Protocol):
    """What shows the run that is followed."""

    record: Record

    def read(self, store: Store, now: float) -> None:
        """Take in what the store has of it."""

    def note(self, text: str) -> None:
        """Say something that happened while it was followed."""

    def draw(self, now: float) -> None:
        """Show what has changed, where that is due."""

    def finish(self, store: Store, now: float) -> None:
        """Show what stays, once it has ended."""


def follow(
    store: Store,
    view: View,
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
    record, begun = view.record, time.time()
    care = Care(record.run.wish.cluster, begun)
    seen, due, asked = -1, 0.0, False
    record.look(store)
    view.draw(begun)  # first, so that state and curves stand above the output
    while not left():
        now = time.time()
        if interrupts and interrupts.count and not asked and _is_meant(interrupts, now):
            asked, seen = True, -1  # a connection does not see its own writing as news
            store.wish_stop(record.run.id)
            view.note(ASKED)
        version = store.data_version()
        if version != seen and now >= due:
            # A short run is over when it is over; a long one is not worth reading that often.
            seen, due = version, now + min(READ_SECONDS, (now - begun) / 10)
            view.read(store, now)
        if record.run.fact.state.ended:
            view.finish(store, now)
            break
        if verdict := hopeless(record.run, record.cluster, now):
            # Else it would begin, to everyone's surprise, when the cluster is mended some day.
            store.wish_stop(record.run.id)
            raise ClusterError(verdict)
        view.draw(now)
        if care.look(now):
            view.note(WOKEN)
        time.sleep(POLL_SECONDS)
    return record.run


def _is_meant(interrupts: Interrupts, now: float) -> bool:
    return now - interrupts.first >= HESITATION_SECONDS


def check_success(run: Run) -> None:
    """Refuse a run that ended otherwise than it should, or than somebody wanted.

    Raises:
        RunFailed: A rank failed, or the run was lost.
    """
    fact = run.fact
    if fact.state is RunState.FAILED:
        host = f" on {fact.failed_host}" if fact.failed_host else ""
        where = f"Run {run.wish.name!r} failed on rank {fact.failed_rank}{host}."
        raise RunFailed(fact.message or where, fact.error)
    if fact.state is RunState.LOST:
        raise RunFailed(fact.message or f"Run {run.wish.name!r} was lost.", fact.error)
