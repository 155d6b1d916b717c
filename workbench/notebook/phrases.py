"""Put numbers and states into words; only this layer formats."""

from __future__ import annotations

import math
import time

from workbench.core.metrics import (
    STEP_PREFIX,
    fraction_done,
    is_step_time,
    reported,
    seconds_left,
    seconds_taken,
)
from workbench.core.run import Run, RunFact, RunState


def duration(seconds: float) -> str:
    """Return a length of time as people say it."""
    if seconds < 10:
        return f"{seconds:.1f} s"
    if seconds < 60:
        return f"{seconds:.0f} s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes} min {rest} s" if rest else f"{minutes} min"
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if minutes else f"{hours} h"


def number(value: float) -> str:
    """Return a value with four significant digits."""
    return f"{value:.4g}" if math.isfinite(value) else str(value)


def count(amount: int, thing: str) -> str:
    """Return ``1 rank``, ``2 ranks``."""
    return f"{amount:,} {thing}" if amount == 1 else f"{amount:,} {thing}s"


def values_line(values: dict[str, float]) -> str:
    """Return what was reported, by name, on one line."""
    return ", ".join(f"{name} {number(value)}" for name, value in reported(values).items())


def step_line(values: dict[str, float]) -> str:
    """Return where the time of a step goes, or nothing when it was not measured."""
    parts = {name.removeprefix(STEP_PREFIX): v for name, v in values.items() if is_step_time(name)}
    shares = sorted(parts.items(), key=lambda part: -part[1])
    return ", ".join(f"{name} {1000 * seconds:.3g} ms" for name, seconds in shares)


def moment(seconds: float) -> str:
    """Return epoch seconds as local date and time."""
    return time.strftime("%Y-%m-%d %H:%M", time.localtime(seconds))


def progress(fact: RunFact) -> str:
    """Return how far a run is: iterations and epochs, of their totals where known."""
    parts = []
    if fact.iteration or fact.iterations_total:
        total = f" of {fact.iterations_total:,}" if fact.iterations_total else ""
        parts.append(f"iteration {fact.iteration:,}{total}")
    if fact.epoch or fact.epochs_total:
        total = f" of {fact.epochs_total:g}" if fact.epochs_total else ""
        parts.append(f"epoch {fact.epoch:.4g}{total}")
    return ", ".join(parts)


def state_line(run: Run, now: float, reason: str = "") -> str:
    """Return where a run stands, in one line.

    Args:
        reason: What it waits for, when it waits.
    """
    fact = run.fact
    parts = [_state(fact)]
    if fact.ranks:
        parts[0] += f" on {count(fact.ranks, 'rank')}"
    parts += [progress(fact)] if fact.state is not RunState.STOPPED else []
    if fact.started:
        parts.append(duration(seconds_taken(fact, now)))
    left = seconds_left(fact, now)
    if left is not None and fact.state is RunState.RUNNING:
        parts.append(f"about {duration(left)} left")
    line = ", ".join(part for part in parts if part)
    remark = reason or fact.message
    return f"{line}: {remark}" if remark else line


def percent(fact: RunFact) -> str:
    """Return how much is done in percent, or nothing when no total is known."""
    done = fraction_done(fact)
    return "" if done is None else f"{100 * done:.0f} %"


def _state(fact: RunFact) -> str:
    if fact.state is RunState.STOPPED and not fact.message:
        return f"stopped at iteration {fact.iteration:,}"
    if fact.state is RunState.FAILED and fact.failed_rank >= 0 and not fact.message:
        return f"failed on rank {fact.failed_rank} ({fact.failed_host})"
    return str(fact.state)
