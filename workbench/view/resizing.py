"""Say before a resize what it means for the run that trains now."""

from __future__ import annotations

import shlex
from collections.abc import Mapping

from workbench.core.cluster.model import ResizeAt
from workbench.core.recovery.departure import has_no_epochs
from workbench.core.recovery.resumption import can_move, is_resumable
from workbench.requests.cluster import training_run
from workbench.store import Store


def resize_effects(store: Store, cluster: str) -> dict[ResizeAt, str]:
    """Return what a resize of ``cluster`` means for its run, for each time that can be asked for.

    It is empty if no run is on the ranks.
    """
    run = training_run(store, cluster)
    if run is None:
        return {}
    name = run.wish.name
    at_end = f"A resize waits for the end of run {name}."
    effects = dict.fromkeys(ResizeAt, at_end)
    if has_no_epochs(run.fact):
        del effects[ResizeAt.EPOCH]
    if not is_resumable(run.wish.kind):
        return effects
    if not can_move(run.wish, store.attempts.newest_snapshot(run.id)):
        now = (
            f"A resize waits for the first snapshot of run {name}, or for its end if it saves "
            "none; loops of workbench.elastic save them."
        )
        return {**dict.fromkeys(effects, now), ResizeAt.END: at_end}
    if run.fact.hindrance:
        now = f"{at_end} {run.fact.hindrance}"
        return {**dict.fromkeys(effects, now), ResizeAt.END: at_end}
    if run.wish.restarts:
        step = (
            f"The script of run {name} starts again on the new ranks when these are ready; it "
            "loads its own newest checkpoint."
        )
        epoch = (
            f"The script of run {name} starts again on the new ranks at the end of its epoch; it "
            "loads its own newest checkpoint."
        )
    else:
        step = f"Run {name} moves to the new ranks at its next iteration, when these are ready."
        epoch = f"Run {name} moves to the new ranks at the end of its epoch, when these are ready."
    effects[ResizeAt.STEP] = step
    if ResizeAt.EPOCH in effects:
        effects[ResizeAt.EPOCH] = epoch
    return effects


def resize_effect(
    store: Store, cluster: str, at: ResizeAt = ResizeAt.STEP, nodes: int | None = None
) -> str:
    """Return what a resize of ``cluster`` means for its run; empty if no run is on its ranks.

    Args:
        nodes: The number that is asked for; None if it is one of ranks.
    """
    if nodes == 0:
        return _describe_release(store, cluster, at)
    effects = resize_effects(store, cluster)
    return effects.get(at, effects.get(ResizeAt.STEP, ""))


def _describe_release(store: Store, cluster: str, at: ResizeAt) -> str:
    """Return what it means that all nodes are released; only terminals say it."""
    run = training_run(store, cluster)
    if run is None:
        return ""
    called = run.wish.name
    moves = can_move(run.wish, store.attempts.newest_snapshot(run.id)) and not run.fact.hindrance
    if not moves or at is ResizeAt.END or (at is ResizeAt.EPOCH and has_no_epochs(run.fact)):
        stop = f"`workbench stop {shlex.quote(called)}` ends it."
        return f"The nodes stay, and cost money, until the end of run {called}; {stop}"
    when = "at the end of its epoch" if at is ResizeAt.EPOCH else "at its next iteration"
    return (
        f"Run {called} is saved and leaves its ranks {when}; it continues by itself once there "
        f"are nodes again (`workbench resize --nodes N`)."
    )


def differ(effects: Mapping[ResizeAt, str]) -> bool:
    """Return whether it matters when a run moves."""
    return bool(effects) and effects[ResizeAt.STEP] != effects[ResizeAt.END]
