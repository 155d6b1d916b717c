"""A run keeps its past attempts; points that are done again are set aside."""

from __future__ import annotations

import pytest

from tests.batches import batch_of, report_news
from workbench.core.recovery.resumption import NONE
from workbench.core.run.model import RunState
from workbench.core.run.rank_protocol import (
    Batch,
    Ending,
    EventReport,
    PointsSaved,
    Sample,
    Samples,
    SnapshotSaved,
    TrainingResumed,
)
from workbench.errors import StateError
from workbench.store import SavedCurves, Store


def report(store: Store, execution: str, *names: tuple[str | type, int], rank: int = 0) -> None:
    """Let a rank report values at iterations, in a batch of each."""
    sequence = store.one(
        "SELECT coalesce(max(sequence), 0) FROM deliveries WHERE rank = ?", (rank,)
    )
    assert sequence is not None
    for place, (name, iteration) in enumerate(names, sequence[0] + 1):
        one = (
            Sample(name, iteration, 1.0, float(iteration))
            if isinstance(name, str)
            else EventReport(name(iteration), 1.0)
        )
        store.reports.add_batches([batch_of(execution, rank, place, [one])])


def losses(first: int, last: int) -> list[tuple[str, int]]:
    return [("loss", n) for n in range(first, last + 1)]


def iterations(store: Store, run: str) -> list[int]:
    return [p.iteration for p in store.reports.points(run) if p.name == "loss"]


def resumed(store: Store, run: str, iteration: int, *, ranks: int = 1) -> str:
    """Queue the next attempt, let its rank read a snapshot, and return its execution's id."""
    store.attempts.continue_run(store.run(run).fact, "because")
    store.put_run_fact(run, ranks=ranks)
    report(store, store.run(run).execution, (TrainingResumed, iteration))
    return store.run(run).execution


@pytest.fixture
def saved(store: Store, run: str) -> str:
    """A run on one rank that has saved a snapshot at 4 and done 6 iterations."""
    store.put_run_fact(run, ranks=1, generation=3, state=RunState.RUNNING, iteration=6, started=2.0)
    report(store, run, *losses(1, 5), (SnapshotSaved, 4), *losses(6, 6))
    return run


def test_points_beyond_the_snapshot_are_set_aside(store, saved) -> None:
    execution = resumed(store, saved, 4)
    report(store, execution, *losses(5, 7))

    assert iterations(store, saved) == [1, 2, 3, 4, 5, 6, 7]
    assert store.all("SELECT iteration FROM superseded ORDER BY sequence") == [(5,), (6,)]
    assert store.reports.final_values(saved)["loss"] == 7
    sequences = [p.sequence for p in store.reports.points(saved)]
    assert len({*sequences}) == len(sequences)
    assert sequences == sorted(sequences)


def test_snapshots_that_are_lost_are_forgotten_with_the_reason(store, saved) -> None:
    store.attempts.continue_run(store.run(saved).fact, "because")
    before = store.run(saved).fact.iteration

    store.attempts.forget_snapshots(saved, "All are gone.")
    store.attempts.forget_snapshots("a deleted run", "All are gone.")

    assert (before, store.run(saved).fact.iteration) == (4, 0)
    assert store.attempts.newest_snapshot(saved) == NONE
    (past,) = store.attempts.past(saved)
    assert (past.snapshot, past.iteration) == (NONE, 6)
    assert past.message.endswith(" All are gone.")
    report(store, store.run(saved).execution, (TrainingResumed, 0), *losses(1, 2))
    assert iterations(store, saved) == [1, 2]


def test_the_last_values_are_those_before_the_snapshot_at_first(store, saved) -> None:
    resumed(store, saved, 4)

    assert store.reports.final_values(saved)["loss"] == 4
    assert store.attempts.newest_snapshot(saved) == 4


def test_the_progress_of_a_waiting_attempt_is_that_of_the_snapshot(store, saved) -> None:
    store.put_run_fact(saved, epoch=3.0)

    store.attempts.continue_run(store.run(saved).fact, "because")

    fact = store.run(saved).fact
    assert (fact.iteration, fact.epoch) == (4, 2.0)


def test_a_reader_that_is_ahead_misses_no_point(store, saved) -> None:
    last = store.reports.points(saved)[-1].sequence

    execution = resumed(store, saved, 4)
    report(store, execution, *losses(5, 5))

    assert [p.iteration for p in store.reports.points(saved, last) if p.name == "loss"] == [5]


def test_values_of_ranks_that_are_no_longer_there_are_not_the_latest(store, saved) -> None:
    report(store, saved, *losses(1, 3), rank=1)

    resumed(store, saved, 4)

    assert store.reports.read_measured(saved, "loss").keys() == {0}
    assert len([p for p in store.reports.points(saved) if p.rank == 1]) == 3


def test_an_earlier_training_of_the_run_keeps_its_points(store, run) -> None:
    store.put_run_fact(run, ranks=1)
    first = [*losses(1, 9), (SnapshotSaved, 9)]
    report(store, run, *first, *losses(1, 3), (SnapshotSaved, 3), *losses(4, 5))

    resumed(store, run, 3)

    assert iterations(store, run) == [*range(1, 10), 1, 2, 3]


def test_a_snapshot_whose_report_was_lost_is_known_by_what_the_ranks_read(store, saved) -> None:
    resumed(store, saved, 5)

    assert iterations(store, saved) == [1, 2, 3, 4, 5]


def test_a_damaged_snapshot_after_one_without_a_report_is_passed_over(store, saved) -> None:
    execution = resumed(store, saved, 5)  # its report was lost
    report(store, execution, *losses(6, 8), (SnapshotSaved, 8), *losses(9, 9))

    resumed(store, saved, 5)

    assert iterations(store, saved) == [1, 2, 3, 4, 5]


def test_a_second_loss_sets_only_its_own_points_aside(store, saved) -> None:
    execution = resumed(store, saved, 4)
    report(store, execution, *losses(5, 6), (SnapshotSaved, 6), *losses(7, 9))

    resumed(store, saved, 6)

    assert iterations(store, saved) == [1, 2, 3, 4, 5, 6]
    assert len(store.all("SELECT * FROM superseded")) == 5


def test_what_is_done_again_is_known_by_attempt_and_name(store, saved) -> None:
    execution = resumed(store, saved, 4)
    report(store, execution, *losses(5, 6), (SnapshotSaved, 6), *losses(7, 9))
    resumed(store, saved, 6)

    found = store.reports.redone_points(saved)

    redone = {attempt: names["loss"].iterations for attempt, names in found.items()}
    assert {n: sorted(where) for n, where in redone.items()} == {1: [5, 6], 2: [7, 8, 9]}


def test_of_much_that_is_done_again_the_newest_is_returned(store, saved) -> None:
    execution = resumed(store, saved, 4)
    report(store, execution, *losses(5, 6), (SnapshotSaved, 6), *losses(7, 9))
    resumed(store, saved, 6)

    found = store.reports.redone_points(saved, limit=4)

    assert {n: sorted(c["loss"].iterations) for n, c in found.items()} == {
        1: [6], 2: [7, 8, 9],
    }  # fmt: skip


def test_an_attempt_starts_with_its_first_batch_and_no_ending(store, saved) -> None:
    store.reports.add_batches([Batch(saved, 1, 1, ending=Ending("failed", 6))])

    store.attempts.continue_run(store.run(saved).fact, "because")

    run = store.run(saved)
    assert (run.fact.state, run.fact.attempt, run.fact.message) == (RunState.QUEUED, 2, "because")
    assert (run.fact.iteration, run.fact.started) == (4, 2.0)
    assert store.reports.endings(saved) == {}
    assert store.reports.add_batches([Batch(run.execution, 0, 1)]) == {(run.execution, 0): 1}


def test_batches_of_an_earlier_attempt_are_dropped_and_acknowledged(store, saved) -> None:
    store.attempts.continue_run(store.run(saved).fact, "because")

    kept = store.reports.add_batches([Batch(saved, 0, 9, (Sample("loss", 99, 1.0, 1.0),))])

    assert kept == {(saved, 0): 9}
    assert 99 not in iterations(store, saved)
    assert store.carried_by(saved) == (0, 0)
    assert store.carried_by(store.run(saved).execution) == (3, 1)


def test_an_attempt_that_never_was_is_unknown(store, saved) -> None:
    with pytest.raises(StateError, match="No run has the id"):
        store.reports.add_batches([Batch(f"{saved}.2", 0, 1)])


def test_a_run_is_queued_once_for_each_attempt(store, saved) -> None:
    past = store.run(saved).fact
    store.attempts.continue_run(past, "first")
    store.attempts.continue_run(past, "second")

    assert store.run(saved).fact.attempt == 2
    assert store.run(saved).fact.message == "first"
    (attempt,) = store.attempts.past(saved)
    assert (attempt.number, attempt.generation, attempt.ranks) == (1, 3, 1)
    assert (attempt.iteration, attempt.snapshot, attempt.last_point) == (6, 4, 6)
    assert attempt.is_automatic


def test_a_pause_is_from_the_last_point_before_to_the_first_one_after(store, run) -> None:
    store.put_run_fact(run, ranks=2)
    report_news(store, run, 1, ("loss", 4, 14.0), (SnapshotSaved, 4, 14.5), ("loss", 5, 15.0))
    store.reports.add_batches([Batch(run, 1, 1, (Sample("loss", 5, 99.0, 1.0),))])
    store.attempts.continue_run(store.run(run).fact, "first")
    report_news(store, store.run(run).execution, 1, (TrainingResumed, 4, 18.0), ("loss", 5, 19.5))
    store.attempts.continue_run(store.run(run).fact, "second")
    report_news(store, store.run(run).execution, 1, (TrainingResumed, 4, 30.0))

    first, second = (one.last_point for one in store.attempts.past(run))

    assert store.attempts.pause(run, first) == 4.5  # also of points that are set aside
    assert store.attempts.pause(run, second) == 0  # nothing was reported since


def test_attempts_go_with_their_run(store, saved) -> None:
    resumed(store, saved, 4)
    store.put_run_fact(saved, state=RunState.FINISHED)

    store.removal.delete_run(saved)
    while store.removal.sweep():
        pass

    for table in ("attempts", "saved_curves", "superseded", "points", "latest", "deliveries"):
        assert store.all(f"SELECT * FROM {table}") == []


def test_the_time_of_lost_steps_is_that_since_what_came_before_the_first_of_them(
    store, run
) -> None:
    store.put_run_fact(run, ranks=1, iteration=6)
    losses = [("loss", n, 100.0 + n) for n in range(1, 7)]
    # Some extensions count by themselves, and report a small iteration late.
    report_news(
        store, run, 1, *losses[:4], (SnapshotSaved, 4, 104.5), *losses[4:], ("own", 2, 106.5)
    )
    unsaved = store.attempts.unsaved_seconds(run, 4)
    store.attempts.continue_run(store.run(run).fact, "because")
    second = store.run(run).execution
    report_news(
        store, second, 1, (TrainingResumed, 4, 150.0), ("loss", 5, 153.0), ("own", 1, 154.0)
    )
    store.attempts.continue_run(store.run(run).fact, "because")
    report_news(store, store.run(run).execution, 1, (TrainingResumed, 4, 160.0), ("loss", 5, 163.0))

    assert unsaved == 1.5  # from the report on, which came after its iteration
    assert store.attempts.redone_seconds(run) == {1: 1.5, 2: 3.0}
    assert store.attempts.unsaved_seconds(run, 4) == 3.0
    assert store.attempts.unsaved_seconds(run, 5) == 0.0


def test_saved_curves_go_when_points_of_theirs_are_done_again(store, saved) -> None:
    curves = SavedCurves(7, 6, b"to 6")
    before = store.curves.count_redone(saved)
    assert store.curves.save(saved, curves, before)
    assert store.curves.read_saved(saved) == curves

    resumed(store, saved, 4)

    assert store.curves.read_saved(saved) is None
    assert not store.curves.save(saved, curves, before)  # read before, written afterwards
    assert store.curves.read_saved(saved) is None
    assert store.curves.save(saved, SavedCurves(8, 4, b"to 4"), store.curves.count_redone(saved))


def test_runs_with_many_points_after_their_saved_curves_are_found(store, saved) -> None:
    cluster = store.run(saved).wish.cluster
    assert store.curves.runs_with_points(cluster, 6) == [saved]
    assert (
        store.curves.runs_with_points(cluster, 7) == store.curves.runs_with_points("other", 1) == []
    )

    store.curves.save(saved, SavedCurves(4, 4, b"1234"), 0)
    assert store.curves.runs_with_points(cluster, 2) == [saved]

    store.curves.save(saved, SavedCurves(4, 4, b"x" * 16), 0)
    assert store.curves.runs_with_points(cluster, 2) == []  # as large as four points may be


def test_a_small_curve_has_no_step_where_points_were_done_again(store, saved) -> None:
    execution = resumed(store, saved, 4)
    report(store, execution, *losses(5, 7))

    assert store.reports.spark(saved, "loss", 40) == [1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0]


def lost(first: int, last: int, name: str = "loss") -> Samples:
    """Return points as ``report`` does."""
    return Samples.of([Sample(name, n, 1.0, float(n)) for n in range(first, last + 1)])


def test_points_that_only_a_snapshot_has_are_added_once(store, run) -> None:
    store.put_run_fact(run, ranks=1, state=RunState.RUNNING)
    report(store, run, *losses(1, 3), (SnapshotSaved, 5))
    saved = EventReport(PointsSaved(5, 0, lost(2, 5)), 9.0)

    for _ in range(2):  # the second attempt is lost before it saves another one
        execution = resumed(store, run, 5)
        store.reports.add_batches([batch_of(execution, 0, 2, [saved])])
    report(store, execution, *losses(6, 7))

    assert iterations(store, run) == [1, 2, 3, 4, 5, 6, 7]
    assert store.all("SELECT * FROM superseded") == []
    assert store.reports.final_values(run)["loss"] == 7
    assert [one.last_point for one in store.attempts.past(run)] == [5, 5]


def test_points_that_a_rank_tells_before_others_are_set_aside_are_added_once(store, run) -> None:
    store.put_run_fact(run, ranks=2, state=RunState.RUNNING)
    report(store, run, *losses(1, 8))
    report(store, run, *losses(1, 4), rank=1)
    store.attempts.continue_run(store.run(run).fact, "because")
    execution = store.run(run).execution
    of_one = EventReport(PointsSaved(5, 1, lost(4, 6)), 9.0)
    report(store, execution, *losses(6, 6))  # before rank 0 says what is done again
    store.reports.add_batches([batch_of(execution, 1, 1, [of_one, Sample("loss", 6, 9.0, 6.0)])])
    report(store, execution, (TrainingResumed, 5))

    points = [(p.rank, p.iteration) for p in store.reports.points(run)]
    assert [iteration for rank, iteration in points if rank == 0] == [1, 2, 3, 4, 5, 6]
    assert [iteration for rank, iteration in points if rank == 1] == [1, 2, 3, 4, 5, 6]


def test_rank_0_tells_the_points_of_a_rank_that_is_no_longer_there(store, run) -> None:
    store.put_run_fact(run, ranks=2, state=RunState.RUNNING)
    report(store, run, *losses(1, 5))
    report(store, run, *losses(1, 3), rank=1)
    execution = resumed(store, run, 5, ranks=1)
    own = EventReport(PointsSaved(5, 1, lost(4, 5)), 9.0)

    store.reports.add_batches([batch_of(execution, 0, 2, [own])])

    points = [(p.rank, p.iteration) for p in store.reports.points(run)]
    assert [iteration for rank, iteration in points if rank == 1] == [1, 2, 3, 4, 5]
    assert store.all("SELECT rank FROM latest") == [(0,)]


def test_another_rank_tells_its_own_points_alone(store, run) -> None:
    store.put_run_fact(run, ranks=2, state=RunState.RUNNING)
    execution = resumed(store, run, 5, ranks=2)
    own, other = (EventReport(PointsSaved(5, n, lost(4, 5)), 9.0) for n in (1, 0))

    store.reports.add_batches([batch_of(execution, 1, 1, [own, other])])

    assert {p.rank for p in store.reports.points(run)} == {1}


def test_the_pause_of_a_run_is_measured_from_its_points_also_where_a_snapshot_has_them(
    store, run
) -> None:
    store.put_run_fact(run, ranks=1, state=RunState.RUNNING)
    store.reports.add_batches([batch_of(run, 0, 1, [Sample("loss", 1, 10.0, 1.0)])])
    execution = resumed(store, run, 2)
    saved = EventReport(PointsSaved(2, 0, Samples.of([Sample("loss", 2, 11.0, 2.0)])), 14.0)

    store.reports.add_batches([batch_of(execution, 0, 2, [saved, Sample("loss", 3, 15.0, 3.0)])])

    (past,) = store.attempts.past(run)
    assert store.attempts.pause(run, past.last_point) == 4.0
    assert store.attempts.first_point(run, past.last_point) == 15.0
