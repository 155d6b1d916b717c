"""A run's state follows what its ranks report."""

from __future__ import annotations

from tests.batches import event_batch
from workbench.core.recovery.progress import newest_snapshot, progressed
from workbench.core.run.model import RunFact, RunState
from workbench.core.run.rank_events import SnapshotSaved, TrainingResumed
from workbench.core.run.rank_protocol import Batch, Progress

FACT = RunFact("260101-000000-aaaa", RunState.SUBMITTED)


def test_a_run_begins_with_its_first_batch_and_never_goes_back() -> None:
    begun = progressed(FACT, Batch(FACT.id, 1, 1), 5.0)
    further = progressed(begun, Batch(FACT.id, 1, 2, progress=Progress(7, 9)), 6.0)
    behind = progressed(further, Batch(FACT.id, 0, 2, progress=Progress(6, 9)), 7.0)

    assert (begun.state, begun.started) == (RunState.RUNNING, 5.0)
    assert (further.iteration, further.iterations_total) == (7, 9)
    assert behind == further


def test_rank_0_reports_snapshots_and_from_which_one_the_run_continues() -> None:
    resumed = event_batch(FACT.id, TrainingResumed(4))
    saved = event_batch(FACT.id, SnapshotSaved(9))

    assert progressed(FACT, resumed, 5.0).resumed_at == 4
    assert newest_snapshot(saved, 4) == 9
    assert newest_snapshot(resumed, 4) == 4
