"""Describe where a run continued in another attempt, or is to, and what it did again."""

from __future__ import annotations

from collections.abc import Iterable

from workbench.core.cluster.model import ClusterWish
from workbench.core.cluster.resize_time import ResizeAt
from workbench.core.recovery.departure import has_no_epochs, moving_iteration
from workbench.core.recovery.resumption import Continuation, ContinuationCause, continuations
from workbench.core.run.model import Run, RunState
from workbench.core.units import count, duration
from workbench.pages.protocol import MarkMessage, RedoneMessage
from workbench.store import Store


def marks_of(store: Store, run: Run) -> tuple[MarkMessage, ...]:
    """Return the marks of a run's later attempts that have read a snapshot, oldest first.

    The last one is where the run is to move, if that is pending.
    """
    pending = _pending_marks(store.cluster_wish(run.wish.cluster), run)
    if run.fact.attempt == 1:
        return pending
    past = (
        mark(one, store.attempts.pause(run.id, one.last_point))
        for one in continuations(store.attempts.past(run.id), run.fact)
    )
    return (*past, *pending)


def mark(where: Continuation, pause: float) -> MarkMessage:
    """Return the mark where a run continued.

    Args:
        pause: Seconds between the last point before and the first one after; 0 if unknown.
    """
    return MarkMessage(iteration=where.iteration, text=_text(where, pause))


def _pending_marks(wish: ClusterWish | None, run: Run) -> tuple[MarkMessage, ...]:
    """Return the mark where a run that trains is to move, unless that is at its next step."""
    fact = run.fact
    if wish is None or not wish.ranks or wish.resize_at is ResizeAt.STEP or run.wish.options.ranks:
        return ()
    if fact.state is not RunState.RUNNING or fact.ranks == wish.ranks or fact.hindrance:
        return ()
    if wish.resize_at is ResizeAt.EPOCH and not has_no_epochs(fact):
        text = f"to {count(wish.ranks, 'rank')} at the end of the epoch"
    else:
        text = f"to {count(wish.ranks, 'rank')} after the run"
    where = moving_iteration(wish.resize_at, fact)
    return (MarkMessage(iteration=where, text=text, is_pending=True),)


def redone_messages(attempts: Iterable[int]) -> tuple[RedoneMessage, ...]:
    """Return what is said of the stretches that later attempts did again, oldest first."""
    return tuple(
        RedoneMessage(attempt=one, text=f"attempt {one:,}, redone") for one in sorted(attempts)
    )


def _text(where: Continuation, pause: float) -> str:
    parts = _causes(where)
    if where.redone or where.left_nodes:
        parts.append(f"{count(where.redone, 'step')} redone")
    if where.cause is not ContinuationCause.REQUEST and pause > 0:
        parts.append(duration(pause))
    return ", ".join(parts)


def _causes(where: Continuation) -> list[str]:
    found = list[str]()
    if where.cause is ContinuationCause.REQUEST:
        found.append("resumed")
    elif where.cause is ContinuationCause.LOSS:
        found.append("rank lost")
    elif where.left_nodes:
        found.append(f"moved off {where.left_nodes}")
    if where.before != where.ranks:
        found.append(f"{where.before:,} → {count(where.ranks, 'rank')}")
    elif not found:
        found.append("moved")
    return found
