"""Put numbers and states into words for a terminal."""

from __future__ import annotations

import math
import time
from pathlib import Path

from workbench.core.cluster import ClusterFact, ClusterState, ClusterWish
from workbench.core.metrics import rank_ranges, seconds_left, seconds_taken
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
    """Return values by name on one line."""
    return ", ".join(f"{name} {number(value)}" for name, value in values.items())


def moment(seconds: float) -> str:
    """Return epoch seconds as local date and time."""
    return time.strftime("%Y-%m-%d %H:%M", time.localtime(seconds))


def home_line(path: Path) -> str:
    """Return a path as a person writes it."""
    home = Path.home()
    return f"~/{path.relative_to(home)}" if path.is_relative_to(home) else str(path)


def prefix(ranks: tuple[int, ...]) -> str:
    """Return ``[0]`` or ``[0-3]``, to stand before a line of output."""
    return f"[{rank_ranges(ranks).partition(' ')[2]}]"


def cluster_line(wish: ClusterWish | None, fact: ClusterFact) -> str:
    """Return a cluster's state in one line: asked against actual."""
    parts = [str(fact.state)]
    if wish is not None and (wish.up or fact.ranks):
        parts.append(f"{count(fact.ranks, 'rank')} of {wish.ranks if wish.up else 0} asked for")
    if fact.generation and fact.state is not ClusterState.DOWN:
        parts.append(f"generation {fact.generation}")
    remark = f": {fact.message}" if fact.message else ""
    return f"Cluster {fact.name}: {', '.join(parts)}{remark}"


def state_line(run: Run, now: float, remark: str = "") -> str:
    """Return where a run stands, in one line.

    Args:
        run: The run.
        now: Epoch seconds.
        remark: What it waits for, when it waits.
    """
    fact = run.fact
    parts = [_state(fact) + (f" on {count(fact.ranks, 'rank')}" if fact.ranks else "")]
    parts += [_progress(fact)] if fact.state is not RunState.STOPPED else []
    if fact.started:
        parts.append(duration(seconds_taken(fact, now)))
    left = seconds_left(fact, now)
    if left is not None and fact.state is RunState.RUNNING:
        parts.append(f"about {duration(left)} left")
    line = ", ".join(part for part in parts if part)
    said = fact.message.removeprefix(f"Stopped at iteration {fact.iteration}.").strip(" .")
    remark = remark or (said if fact.state is not RunState.FINISHED else "")
    return f"{line}: {remark}" if remark else line


def waiting(run: Run, cluster: ClusterFact) -> str:
    """Return what a run waits for, or nothing when it does not wait."""
    if run.fact.state.ended:
        return ""
    if run.wish.stop:
        return f"asked to stop; the ranks have {run.wish.grace:g} s to reach an iteration boundary"
    if run.fact.state is not RunState.QUEUED:
        return ""
    if cluster.state is ClusterState.READY:
        return "about to be sent to the ranks, after those before it"
    failed = cluster.state is ClusterState.FAILED
    what = "failed and is tried again" if failed else f"is {cluster.state}"
    return f"the cluster {what}" + (f" ({cluster.message})" if cluster.message else "")


def _progress(fact: RunFact) -> str:
    parts = []
    if fact.iteration or fact.iterations_total:
        total = f" of {fact.iterations_total:,}" if fact.iterations_total else ""
        parts.append(f"iteration {fact.iteration:,}{total}")
    if fact.epoch or fact.epochs_total:
        total = f" of {fact.epochs_total:g}" if fact.epochs_total else ""
        parts.append(f"epoch {fact.epoch:.3g}{total}")
    return ", ".join(parts)


def _state(fact: RunFact) -> str:
    if fact.state is RunState.STOPPED:
        return f"stopped at iteration {fact.iteration:,}"
    if fact.state is RunState.FAILED and fact.failed_rank >= 0:
        return f"failed on rank {fact.failed_rank} ({fact.failed_host})"
    return str(fact.state)
