"""Update a run's observed state by what a rank reports."""

from __future__ import annotations

from dataclasses import replace

from workbench.core.run.model import RunFact, RunState
from workbench.core.run.rank_events import SnapshotSaved, TrainingResumed
from workbench.core.run.rank_protocol import Batch


def newest_snapshot(batch: Batch, known: int) -> int:
    """Return the iteration of the run's newest snapshot after a batch; ``known`` is that before."""
    newest = batch.event(SnapshotSaved)
    return newest.iteration if newest else known


def progressed(fact: RunFact, batch: Batch, now: float) -> RunFact:
    """Return the state of a run that has not ended, after a batch.

    Args:
        now: Epoch seconds.
    """
    if fact.state is RunState.SUBMITTED:
        fact = replace(fact, state=RunState.RUNNING, started=fact.started or now)
    if resumed := batch.event(TrainingResumed):
        at = resumed.iteration
        fact = replace(fact, resumed_at=at, resumed=now, iteration=at)
    progress = batch.progress
    if progress is None or progress.iteration < fact.iteration:
        return fact
    return replace(
        fact,
        iteration=progress.iteration,
        iterations_total=progress.iterations_total,
        epoch=progress.epoch,
        epochs_total=progress.epochs_total,
    )
