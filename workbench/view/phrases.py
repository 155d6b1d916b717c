"""Put numbers and states into words; only what shows them to a person uses these."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from pathlib import Path

from workbench.core.cluster import ClusterFact, ClusterState, ClusterWish
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


def moment(seconds: float) -> str:
    """Return epoch seconds as local date and time."""
    return time.strftime("%Y-%m-%d %H:%M", time.localtime(seconds))


def number(value: float) -> str:
    """Return a value with four significant digits."""
    return f"{value:.4g}" if math.isfinite(value) else str(value)


def dollars(amount: float) -> str:
    """Return an amount of money; less than a cent is not nothing."""
    return f"${amount:.4f}" if 0 < amount < 0.01 else f"${amount:,.2f}"


def hourly(price: float) -> str:
    """Return a price of an hour, which spot prices need four digits for."""
    return f"${price:,.4f}/h" if 0 < price < 1 else f"${price:,.2f}/h"


def count(amount: int, thing: str) -> str:
    """Return ``1 rank``, ``2 ranks``."""
    return f"{amount:,} {thing}" if amount == 1 else f"{amount:,} {thing}s"


def place(path: Path) -> str:
    """Return a path as a person writes it."""
    home = Path.home()
    return f"~/{path.relative_to(home)}" if path.is_relative_to(home) else str(path)


def values_line(values: dict[str, float]) -> str:
    """Return what was reported, by name, on one line."""
    return ", ".join(f"{name} {number(value)}" for name, value in reported(values).items())


def step_line(values: dict[str, float]) -> str:
    """Return where the time of a step goes, or nothing when it was not measured."""
    parts = {name.removeprefix(STEP_PREFIX): v for name, v in values.items() if is_step_time(name)}
    if "moving" in parts:
        parts.pop("communication", None)  # which is waiting and moving
    shares = sorted(parts.items(), key=lambda part: -part[1])
    return ", ".join(f"{name} {1000 * seconds:.3g} ms" for name, seconds in shares)


def percent(fact: RunFact) -> str:
    """Return how much is done in percent, or nothing when no total is known."""
    done = fraction_done(fact)
    return "" if done is None else f"{100 * done:.0f} %"


def cluster_line(wish: ClusterWish | None, fact: ClusterFact) -> str:
    """Return a cluster's state in one line: asked against actual."""
    parts = [str(fact.state)]
    if wish is not None and (wish.up or fact.ranks):
        asked = f" of {wish.ranks if wish.up else 0} asked for"
        # Nodes carry as many ranks as they have slots, unless a number was asked for.
        is_open = wish.up and not wish.ranks
        parts.append(f"{count(fact.ranks, 'rank')}{'' if is_open else asked}")
    if fact.generation and fact.state is not ClusterState.DOWN:
        parts.append(f"generation {fact.generation}")
    return f"Cluster {fact.name}: {', '.join(parts)}{f': {fact.message}' if fact.message else ''}"


def state_line(run: Run, now: float, remark: str = "", rate: float = 0.0) -> str:
    """Return where a run stands, in one line.

    Args:
        now: Epoch seconds.
        remark: What it waits for, when it waits.
        rate: Iterations a second of late; 0 when unknown.
    """
    fact = run.fact
    running = fact.state is RunState.RUNNING
    state, said = _state(fact)
    parts = [state + (f" on {count(fact.ranks, 'rank')}" if fact.ranks else "")]
    parts += [_progress(fact)] if fact.state is not RunState.STOPPED else []
    if fact.started:
        parts.append(duration(seconds_taken(fact, now)))
    left = seconds_left(fact, now)
    if left is not None and running:
        parts.append(f"about {duration(left)} left")
    if rate > 0 and running:
        parts.append(f"{rate:.3g} it/s")
    line = ", ".join(part for part in parts if part)
    return f"{line}: {remark or said}" if remark or said else line


def summary(
    run: Run, values: dict[str, float], folder: Path, now: float, says: Sequence[str] = ()
) -> list[str]:
    """Return what is to be known of a run when it has ended and no picture can be shown.

    Args:
        values: The last value of every name.
        says: What there is to say of where its time went.
        folder: Where the run is kept.
        now: Epoch seconds.
    """
    lines = [f"Run {run.wish.name}: {state_line(run, now)}"]
    if line := values_line(values):
        lines.append(f"Last values: {line}")
    if line := step_line(values):
        lines.append(f"A step takes: {line}")
    lines += says
    return [*lines, kept_line(run, folder)]


def kept_line(run: Run, folder: Path) -> str:
    """Return where the run can be found later."""
    return f"Kept as {run.id} in {place(folder)}"


def _state(fact: RunFact) -> tuple[str, str]:
    """Return the state, and what else is to be said of it."""
    if fact.state is RunState.STOPPED:
        # Its message begins with where it was stopped: "Stopped at iteration 7. Ranks are new."
        begins, _, rest = fact.message.rstrip(".").partition(". ")
        if begins.startswith("Stopped "):
            return begins[0].lower() + begins[1:], rest
        return f"stopped at iteration {fact.iteration}", fact.message
    if fact.state is RunState.FAILED and fact.failed_rank >= 0 and not fact.message:
        return f"failed on rank {fact.failed_rank} ({fact.failed_host})", ""
    return str(fact.state), fact.message.rstrip(".")


def _progress(fact: RunFact) -> str:
    parts = []
    if fact.iteration or fact.iterations_total:
        total = f" of {fact.iterations_total:,}" if fact.iterations_total else ""
        parts.append(f"iteration {fact.iteration:,}{total}")
    if fact.epoch or fact.epochs_total:
        total = f" of {fact.epochs_total:g}" if fact.epochs_total else ""
        parts.append(f"epoch {fact.epoch:.4g}{total}")
    return ", ".join(parts)
