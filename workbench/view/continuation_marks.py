"""Describe in a few words where a run continued in another attempt, and what it did again."""

from __future__ import annotations

from collections.abc import Iterable

from workbench.core.run.model import Run
from workbench.core.run.resumption import Continuation, ContinuationCause, continuations
from workbench.store import Store
from workbench.view.page_protocol import MarkMessage, RedoneMessage
from workbench.view.phrase import Argument, Phrase, counted, phrase


def marks_of(store: Store, run: Run) -> tuple[MarkMessage, ...]:
    """Return the marks of a run's later attempts that have read a snapshot, oldest first."""
    if run.fact.attempt == 1:
        return ()
    return tuple(
        mark(one, store.pause(run.id, one.last_point))
        for one in continuations(store.attempts(run.id), run.fact)
    )


def mark(where: Continuation, pause: float) -> MarkMessage:
    """Return the mark where a run continued.

    Args:
        pause: Seconds between the last point before and the first one after; 0 if unknown.
    """
    return MarkMessage(iteration=where.iteration, text=_text(where, pause))


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
