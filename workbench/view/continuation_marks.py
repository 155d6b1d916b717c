"""Describe where a run continued in another attempt, or is to, and what it did again."""

from __future__ import annotations

from collections.abc import Iterable

from workbench.core.cluster.model import ClusterWish
from workbench.core.cluster.resize_time import ResizeAt
from workbench.core.recovery.departure import has_no_epochs, moving_iteration
from workbench.core.recovery.resumption import Continuation, ContinuationCause, continuations
from workbench.core.run.model import Run, RunState
from workbench.pages.protocol import MarkMessage, RedoneMessage
from workbench.store import Store
from workbench.view.phrase import Argument, Phrase, counted, phrase


def marks_of(store: Store, run: Run) -> tuple[MarkMessage, ...]:
    """Return the marks of a run's later attempts that have read a snapshot, oldest first.

    The last one is where the run is to move, if that is pending.
    """
    pending = _pending(store.cluster_wish(run.wish.cluster), run)
    if run.fact.attempt == 1:
        return pending
    past = (
        mark(one, store.pause(run.id, one.last_point))
        for one in continuations(store.attempts(run.id), run.fact)
    )
    return (*past, *pending)


def mark(where: Continuation, pause: float) -> MarkMessage:
    """Return the mark where a run continued.

    Args:
        pause: Seconds between the last point before and the first one after; 0 if unknown.
    """
    return MarkMessage(iteration=where.iteration, text=_text(where, pause))


def _pending(wish: ClusterWish | None, run: Run) -> tuple[MarkMessage, ...]:
    """Return the mark where a run that trains is to move, unless that is at its next step."""
    fact = run.fact
    if wish is None or not wish.ranks or wish.resize_at is ResizeAt.STEP or run.wish.ranks:
        return ()
    if fact.state is not RunState.RUNNING or fact.ranks == wish.ranks or fact.hindrance:
        return ()
    ranks: Argument = ("count", wish.ranks)
    if wish.resize_at is ResizeAt.EPOCH and not has_no_epochs(fact):
        text = counted(
            "to %2 rank at the end of the epoch",
            "to %2 ranks at the end of the epoch",
            wish.ranks,
            ranks,
        )
    else:
        text = counted("to %2 rank after the run", "to %2 ranks after the run", wish.ranks, ranks)
    where = moving_iteration(wish.resize_at, fact)
    return (MarkMessage(iteration=where, text=text, is_pending=True),)


def redone_messages(attempts: Iterable[int]) -> tuple[RedoneMessage, ...]:
    """Return what is said of the stretches that later attempts did again, oldest first."""
    return tuple(
        RedoneMessage(attempt=one, text=phrase("attempt %1, redone", ("count", one)))
        for one in sorted(attempts)
    )


def _text(where: Continuation, pause: float) -> Phrase:
    whole, *rest = _causes(where)
    parts: list[Argument] = [*rest]
    if where.redone or where.left_nodes:
        redone: Argument = ("count", where.redone)
        parts.append(counted("%2 step redone", "%2 steps redone", where.redone, redone))
    if where.cause is not ContinuationCause.REQUEST and pause > 0:
        parts.append(("duration", pause))
    for part in parts:
        whole = phrase("%1, %2", whole, part)
    return whole


def _causes(where: Continuation) -> list[Phrase]:
    found = list[Phrase]()
    if where.cause is ContinuationCause.REQUEST:
        found.append(phrase("resumed"))
    elif where.cause is ContinuationCause.LOSS:
        found.append(phrase("rank lost"))
    elif where.left_nodes:
        found.append(phrase("moved off %1", where.left_nodes))
    if where.before != where.ranks:
        before: Argument = ("count", where.before)
        after: Argument = ("count", where.ranks)
        found.append(counted("%2 → %3 rank", "%2 → %3 ranks", where.ranks, before, after))
    elif not found:
        found.append(phrase("moved"))
    return found
