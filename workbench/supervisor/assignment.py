"""What the ranks get to execute a run."""

from __future__ import annotations

import contextlib
import random
import socket
from collections.abc import Sequence

from workbench.core.recovery.resumption import Attempt, insists, was_lost
from workbench.core.recovery.script_restart import torchelastic_environment
from workbench.core.run.model import Assignment, Run
from workbench.core.world.world import PORT_RANGE
from workbench.store.paths import run_directory


def assignment_of(
    run: Run,
    *,
    data: str,
    output: str,
    snapshots: str,
    has_snapshot: bool,
    past: Sequence[Attempt] = (),
    to_edge: bool = False,
    early: tuple[tuple[str, str], ...] = (),
) -> Assignment:
    """Return the assignment of a run that was submitted.

    Args:
        data: The folder of the data on each rank.
        output: The folder for the run's output; empty for none.
        snapshots: The folder for its snapshots, likewise; of a run that is repeated for its own.
        has_snapshot: Whether the run has reported one, or the run that it repeats.
        past: The attempts of that run which have ended.
        to_edge: Whether its ranks wait at the edge of its training, to continue the run that it
            repeats.
        early: Environment variables of a run that begins while other nodes still boot.
    """
    wish = run.wish
    return Assignment(
        wish,
        environment=(
            *wish.origin.environment,
            *torchelastic_environment(run),
            *early,
            *wish.options.environment,
        ),
        ranks=run.fact.ranks,
        directory=str(run_directory(wish.id)),
        master_port=_free_port(),
        data=data,
        output=output,
        attempt=run.fact.attempt,
        snapshots=snapshots,
        resume=run.fact.attempt > 1 or bool(wish.replays and snapshots),
        begins_again=(run.fact.attempt > 1 or to_edge) and not has_snapshot,
        insists=insists(past) and not (wish.replays or to_edge),
        losses=sum(was_lost(one) for one in past),
        lived=past[-1].ended - past[0].started if past and past[0].started else 0.0,
        continues=str(run_directory(wish.replays)) if to_edge else "",
    )


def _free_port() -> int:
    """Return a port of this machine that no program uses."""
    while True:
        port = random.SystemRandom().randrange(*PORT_RANGE)
        with contextlib.suppress(OSError), socket.socket() as probe:
            probe.bind(("", port))
            return port
