"""The state of a run in one line, the same in a page, a notebook and a terminal."""

from __future__ import annotations

import math
from collections.abc import Iterable

from workbench.core.fleet.model import Node
from workbench.core.run.metrics import iterations_to_do, seconds_left, seconds_taken
from workbench.core.run.model import Run, RunFact, RunKind, RunState
from workbench.core.units import count, duration, number
from workbench.view.notices import notices

SEPARATOR = " · "
_WORDS = {
    RunState.QUEUED: "queued",
    RunState.SUBMITTED: "submitted",
    RunState.RUNNING: "running",
    RunState.STOPPING: "stopping…",
    RunState.FINISHED: "finished",
    RunState.FAILED: "failed",
    RunState.STOPPED: "stopped",
    RunState.LOST: "lost",
}


def state_word(run: Run) -> str:
    """Return a run's state in a word."""
    return _WORDS[RunState.STOPPING if is_stopping(run) else run.fact.state]


def is_stopping(run: Run) -> bool:
    """Whether an active run was asked to stop."""
    return run.wish.stop and not run.fact.state.ended


def line_parts(
    run: Run, now: float, remark: str = "", rate: float = 0.0, reclaimed: Iterable[Node] = ()
) -> tuple[str, ...]:
    """Return the parts of a run's line, which is shown beside its state.

    Args:
        now: Epoch seconds.
        remark: Why it waits, if it does; otherwise what is stored of it is shown.
        rate: Recent iterations per second; 0 when unknown.
        reclaimed: The nodes of its cluster that have an interruption notice.
    """
    fact = run.fact
    ending, said = _ending(fact)
    parts = [ending] if ending else _progress(run)
    has_changed = 0 < fact.ranks != fact.ranks_before > 0
    if fact.ranks and not has_changed:
        parts.append(count(fact.ranks, "rank"))
    if fact.attempt > 1:
        parts.append(_attempt(fact, has_changed=has_changed))
    if fact.state is RunState.RUNNING and not is_stopping(run):
        if rate > 0:
            parts.append(f"{number(rate, 3)} it/s")
        if (left := seconds_left(fact, now)) is not None:
            parts.append(f"{duration(left)} left")
    if fact.state.ended and fact.started:
        parts.append(f"took {duration(seconds_taken(fact, now))}")
    if not fact.state.ended:
        parts += notices(reclaimed, now)
    last = (remark or said).removesuffix(".")
    return (*parts, last) if last else tuple(parts)


def state_line(
    run: Run, now: float, remark: str = "", rate: float = 0.0, reclaimed: Iterable[Node] = ()
) -> str:
    """Return a run's state and its line, with the arguments of ``line_parts``."""
    parts = line_parts(run, now, remark, rate, reclaimed)
    ending, _ = _ending(run.fact)
    whole = parts if ending else (state_word(run), *parts)
    return SEPARATOR.join(whole)


def _ending(fact: RunFact) -> tuple[str, str]:
    """Return how it ended, if that says more than its state, and the other stored sentences."""
    if fact.state is RunState.STOPPED:
        return _describe_stop(fact)
    if fact.state is RunState.FAILED and fact.failed_rank >= 0:
        said = ". ".join(filter(None, [fact.failure, fact.remark]))
        host = f" ({fact.failed_host})" if fact.failed_host else ""
        where = f"failed on rank {fact.failed_rank}{host}"
        return where, said if fact.failure else fact.message
    return "", fact.message


def _describe_stop(fact: RunFact) -> tuple[str, str]:
    if fact.stopped_at < 0:
        if not fact.started and not fact.iteration:
            return "stopped before it started", fact.remark
        if fact.message:  # written before the iteration was a field
            return "", fact.message
    iteration = fact.iteration if fact.stopped_at < 0 else fact.stopped_at
    return f"stopped at iteration {iteration:,}", fact.remark


def _attempt(fact: RunFact, *, has_changed: bool) -> str:
    """Return which attempt it is, and from where.

    Args:
        has_changed: Whether it has another number of ranks than the attempt before.
    """
    ranks = f", {fact.ranks_before:,} → {count(fact.ranks, 'rank')}" if has_changed else ""
    where = f", resumed at iteration {fact.resumed_at:,}" if fact.resumed_at >= 0 else ""
    return f"attempt {fact.attempt:,}{ranks}{where}"


def _progress(run: Run) -> list[str]:
    fact, parts = run.fact, list[str]()
    done, total = fact.iteration, iterations_to_do(fact)
    if total and run.wish.kind is RunKind.MEASUREMENT:
        parts.append(f"step {done:,} of {total:,.0f}")
    elif total:
        parts.append(f"iteration {done:,} of {total:,.0f}")
    elif done:
        parts.append(f"iteration {done:,}")
    epoch = fact.epoch if math.isfinite(fact.epoch) else 0.0
    if fact.epochs_total and math.isfinite(fact.epochs_total):
        parts.append(f"epoch {number(epoch, 3)} of {number(fact.epochs_total)}")
    elif epoch:
        parts.append(f"epoch {number(epoch, 3)}")
    return parts
