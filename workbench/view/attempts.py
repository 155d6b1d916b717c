"""Where a run continued in another attempt: headings of its output, marks on its curves."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby

from workbench.core.cluster.model import ClusterWish, ResizeAt
from workbench.core.recovery.departure import has_no_epochs, moving_iteration
from workbench.core.recovery.resumption import (
    NONE,
    Attempt,
    Continuation,
    ContinuationCause,
    continuations,
    lost_steps,
)
from workbench.core.run.model import Run, RunState
from workbench.core.units import count, duration
from workbench.pages.protocol import MarkMessage, RedoneMessage
from workbench.store import OutputRow, Store


class AttemptHeadings:
    """The headings of one run's output, each returned once.

    Args:
        run: The run's id.
    """

    def __init__(self, run: str) -> None:
        self._run = run
        self._seen = 0

    def split(
        self, store: Store, rows: Sequence[OutputRow]
    ) -> Iterator[tuple[str, list[OutputRow]]]:
        """Yield pieces of output by attempt, each group with its heading, or an empty text.

        A run without a second attempt has no heading.
        """
        run, past = store.run(self._run), store.attempts.past(self._run)
        ends = [one.last_output for one in past]
        for place, group in groupby(rows, key=lambda row: bisect_left(ends, row.sequence)):
            is_new, self._seen = place >= self._seen, max(self._seen, place + 1)
            yield heading(run, past, place) if is_new and past else "", [*group]


def output_before(store: Store, run: str) -> int:
    """Return the sequence number of the newest output of a run's earlier attempts; 0 for none."""
    return max((one.last_output for one in store.attempts.past(run)), default=0)


def heading(run: Run, past: Sequence[Attempt], place: int) -> str:
    """Return the heading of an attempt: why it was begun, and from where.

    Args:
        past: The attempts that have ended, oldest first.
        place: That of the attempt among all, from 0.
    """
    ranks = past[place].ranks if place < len(past) else run.fact.ranks
    if not place:
        return f"attempt 1, {count(ranks, 'rank')}"
    before = past[place - 1]
    changed = f"{before.ranks} → " if before.ranks != ranks else ""
    parts = [f"attempt {place + 1}", f"{changed}{count(ranks, 'rank')}"]
    resumed_at = past[place].resumed_at if place < len(past) else run.fact.resumed_at
    if resumed_at != NONE:
        parts.append(f"from iteration {resumed_at:,}")
    why = before.message if before.is_automatic else "resumed"
    lost = "" if run.wish.restarts else lost_steps(past[:place], resumed_at, {})
    return f"{', '.join(parts)}: {' '.join(filter(None, (why, lost)))}"


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
