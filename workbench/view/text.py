"""Numbers and states in words, for what is shown to a person."""

from __future__ import annotations

import shlex
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from workbench.core.cluster.model import ClusterFact, ClusterState, ClusterWish, shown_state
from workbench.core.fleet.model import Offer
from workbench.core.run.metrics import format_left_out, fraction_done, select_reported
from workbench.core.run.model import Run, RunFact
from workbench.core.units import count, dollars, duration, hourly, number, percent_of
from workbench.view.state_line import state_line

NOTHING = "–"
VERDICTS = {True: "✓ good", False: "✗ problem", None: f"{NOTHING} not checked"}

__all__ = [
    "cluster_line", "count", "dollars", "duration", "hourly", "kept_line", "moment", "network",
    "number", "percent", "place", "summary", "values_line",
]  # fmt: skip


def moment(seconds: float) -> str:
    """Return epoch seconds as local date and time."""
    return time.strftime("%Y-%m-%d %H:%M", time.localtime(seconds))


def network(offer: Offer) -> str:
    """Return a type's sustained network bandwidth, and that of one connection if it is less."""
    if not offer.network:
        return "unknown"
    one = f", {offer.flow:g} per connection" if 0 < offer.flow < offer.network else ""
    return f"{offer.network:g} Gbit/s{one}"


def place(path: Path) -> str:
    """Return a path with ``~`` for the home folder."""
    home = Path.home()
    return f"~/{path.relative_to(home)}" if path.is_relative_to(home) else str(path)


def values_line(values: Mapping[str, float]) -> str:
    """Return the reported values by name, on one line."""
    words = [f"{name} {number(value)}" for name, value in select_reported(values).items()]
    return ", ".join([*words, *filter(None, [format_left_out(values)])])


def percent(fact: RunFact) -> str:
    """Return the progress in percent; empty when no total is known."""
    done = fraction_done(fact)
    return "" if done is None else percent_of(done)


def cluster_word(state: ClusterState) -> str:
    """Return a cluster's state in the panel's words."""
    return "paused, without nodes" if state is ClusterState.PAUSED else str(state)


def cluster_line(wish: ClusterWish | None, fact: ClusterFact) -> str:
    """Return a cluster's state in one line: desired and actual size."""
    state = shown_state(wish, fact)
    parts = [cluster_word(state)]
    if wish is not None and (wish.up or fact.ranks):
        # Nodes run as many ranks as they have slots, unless a number was requested.
        is_open = wish.up and not wish.ranks
        asked = wish.ranks if wish.up else 0
        has = count(fact.ranks, "rank")
        parts.append(has if is_open else f"{fact.ranks} of {count(asked, 'rank')}")
    return f"Cluster {fact.name}: {', '.join(parts)}{f': {fact.message}' if fact.message else ''}"


def summary(
    run: Run, values: Mapping[str, float], folder: Path, now: float, steps: Sequence[str] = ()
) -> list[str]:
    """Return the summary of an ended run, for a page without pictures.

    Args:
        values: The last value of every name.
        steps: The sentences of the step breakdown.
        folder: Where the run is saved.
        now: Epoch seconds.
    """
    lines = [f"Run {run.wish.name}: {state_line(run, now)}"]
    if line := values_line(values):
        lines.append(f"Last values: {line}")
    return [*lines, *steps, kept_line(run, folder)]


def kept_line(run: Run, folder: Path) -> str:
    """Return where the run is saved."""
    return f"Saved as {run.id} in {place(folder)}"


def all_frames(run: Run) -> str:
    """Return the command that prints all frames of the run's error, if it has any."""
    command = f"workbench logs {shlex.quote(run.wish.name)} --traceback"
    return f"All frames: `{command}`" if run.fact.traceback else ""
