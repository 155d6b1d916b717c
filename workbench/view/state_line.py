"""The state of a run in one line, the same in a page, a notebook and a terminal."""

from __future__ import annotations

import math
from collections.abc import Iterable

from workbench.core.fleet.model import Node
from workbench.core.run.metrics import iterations_to_do, seconds_left, seconds_taken
from workbench.core.run.model import Run, RunFact, RunKind, RunState
from workbench.view.notices import notices
from workbench.view.phrase import Amount, Phrase, Said, counted, english, phrase

SEPARATOR = " · "
_WORDS = {
    RunState.QUEUED: phrase("queued"),
    RunState.SUBMITTED: phrase("submitted"),
    RunState.RUNNING: phrase("running"),
    RunState.STOPPING: phrase("stopping…"),
    RunState.FINISHED: phrase("finished"),
    RunState.FAILED: phrase("failed"),
    RunState.STOPPED: phrase("stopped"),
    RunState.LOST: phrase("lost"),
}


def state_word(run: Run) -> Phrase:
    """Return a run's state in a word."""
    return _WORDS[RunState.STOPPING if is_stopping(run) else run.fact.state]


def is_stopping(run: Run) -> bool:
    """Whether an active run was asked to stop."""
    return run.wish.stop and not run.fact.state.ended


def line_parts(
    run: Run, now: float, remark: str = "", rate: float = 0.0, reclaimed: Iterable[Node] = ()
) -> tuple[Said, ...]:
    """Return the parts of a run's line, which is shown beside its state.

    Args:
        now: Epoch seconds.
        remark: Why it waits, if it does; otherwise what is stored of it is shown.
        rate: Recent iterations per second; 0 when unknown.
        reclaimed: The nodes of its cluster that have an interruption notice.
    """
    fact = run.fact
    ending, said = _ending(fact)
    parts: list[Said] = [ending] if ending else _progress(run)
    has_changed = 0 < fact.ranks != fact.ranks_before > 0
    if fact.ranks and not has_changed:
        parts.append(counted("%2 rank", "%2 ranks", fact.ranks, ("count", fact.ranks)))
    if fact.attempt > 1:
        parts.append(_attempt(fact, has_changed=has_changed))
    if fact.state is RunState.RUNNING and not is_stopping(run):
        if rate > 0:
            parts.append(phrase("%1 it/s", ("rate", rate)))
        if (left := seconds_left(fact, now)) is not None:
            parts.append(phrase("%1 left", ("duration", left)))
    if fact.state.ended and fact.started:
        parts.append(phrase("took %1", ("duration", seconds_taken(fact, now))))
    if not fact.state.ended:
        parts += notices(reclaimed, now)
    last = (remark or said).removesuffix(".")
    return (*parts, last) if last else tuple(parts)


def state_line(
    run: Run, now: float, remark: str = "", rate: float = 0.0, reclaimed: Iterable[Node] = ()
) -> str:
    """Return a run's state and its line in English, with the arguments of ``line_parts``."""
    parts = line_parts(run, now, remark, rate, reclaimed)
    ending, _ = _ending(run.fact)
    whole = parts if ending else (state_word(run), *parts)
    return SEPARATOR.join(map(english, whole))


def _ending(fact: RunFact) -> tuple[Phrase | None, str]:
    """Return how it ended, if that says more than its state, and the other stored sentences."""
    if fact.state is RunState.STOPPED:
        return _stopped(fact)
    if fact.state is RunState.FAILED and fact.failed_rank >= 0:
        said = ". ".join(filter(None, [fact.failure, fact.remark]))
        rank, host = str(fact.failed_rank), fact.failed_host
        where = (
            phrase("failed on rank %1 (%2)", rank, host)
            if host
            else phrase("failed on rank %1", rank)
        )
        return where, said if fact.failure else fact.message
    return None, fact.message


def _stopped(fact: RunFact) -> tuple[Phrase | None, str]:
    if fact.stopped_at < 0:
        if not fact.started and not fact.iteration:
            return phrase("stopped before it started"), fact.remark
        if fact.message:  # written before the iteration was a field
            return None, fact.message
    iteration = fact.iteration if fact.stopped_at < 0 else fact.stopped_at
    return phrase("stopped at iteration %1", ("count", iteration)), fact.remark


def _attempt(fact: RunFact, *, has_changed: bool) -> Phrase:
    """Return which attempt it is, and from where.

    Args:
        has_changed: Whether it has another number of ranks than the attempt before.
    """
    number: Amount = ("count", fact.attempt)
    before: Amount = ("count", fact.ranks_before)
    after: Amount = ("count", fact.ranks)
    where: Amount = ("count", fact.resumed_at)
    if not has_changed and fact.resumed_at < 0:
        return phrase("attempt %1", number)
    if not has_changed:
        return phrase("attempt %1, resumed at iteration %2", number, where)
    if fact.resumed_at < 0:
        return counted(
            "attempt %2, %3 → %4 rank", "attempt %2, %3 → %4 ranks",
            fact.ranks, number, before, after,
        )  # fmt: skip
    return counted(
        "attempt %2, %3 → %4 rank, resumed at iteration %5",
        "attempt %2, %3 → %4 ranks, resumed at iteration %5",
        fact.ranks, number, before, after, where,
    )  # fmt: skip


def _progress(run: Run) -> list[Said]:
    fact, parts = run.fact, list[Said]()
    done, total = fact.iteration, iterations_to_do(fact)
    if total and run.wish.kind is RunKind.MEASUREMENT:
        parts.append(phrase("step %1 of %2", ("count", done), ("count", total)))
    elif total:
        parts.append(phrase("iteration %1 of %2", ("count", done), ("count", total)))
    elif done:
        parts.append(phrase("iteration %1", ("count", done)))
    epoch = fact.epoch if math.isfinite(fact.epoch) else 0.0
    if fact.epochs_total and math.isfinite(fact.epochs_total):
        parts.append(phrase("epoch %1 of %2", ("rate", epoch), ("value", fact.epochs_total)))
    elif epoch:
        parts.append(phrase("epoch %1", ("rate", epoch)))
    return parts
