"""A record reads what is new, and nothing twice."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.batches import event_batch
from workbench.core.run.model import RunState
from workbench.core.run.rank_protocol import Batch, Sample, TrainingResumed
from workbench.pages.feed import Feed
from workbench.pages.messages import full_run_message, listed_runs
from workbench.store import SavedCurves, Store
from workbench.supervisor.housekeeping import CurveSaving
from workbench.view.run_record import RunRecord, curves_of, failed_attempts


def test_a_record_reads_only_what_is_new(store, queue, report):
    run = queue("digits")
    report(run, 0, "hello\n", main__loss=[4.0, 2.0, 1.0], step__data=[0.1])
    record = RunRecord(run)

    texts = [row.text for rows in record.read(store, 100.0) for row in rows]
    again = [row.text for rows in record.read(store, 101.0) for row in rows]

    assert (texts, again) == (["hello\n"], [])
    assert (len(record.curves["main/loss"]), record.points) == (3, 3)


def test_where_the_time_of_a_step_goes_makes_no_curve(store, queue, report):
    run = queue("digits")
    report(run, 0, main__loss=[4.0], step__data=[0.1])

    assert list(curves_of(store, run)) == ["main/loss"]


def test_a_queued_run_knows_those_that_go_first(store, queue):
    first, second = queue("first"), queue("second")
    record = RunRecord(second)

    record.look(store)

    assert [run.id for run in record.before] == [first.id]


def test_a_running_run_says_its_pace(store, supervisor, queue):
    run = queue("digits")
    record = RunRecord(run)
    for now, iteration in [(100.0, 10), (101.0, 30)]:
        supervisor.put_run_fact(run.id, state=RunState.RUNNING, started=99.0, iteration=iteration)
        list(record.read(store, now))

    assert record.line(101.0) == "running · iteration 30 · 20 it/s"


def test_points_are_read_on_after_the_clock_was_set_back(store, queue, report):
    run = queue("digits")
    record = RunRecord(run)
    list(record.read(store, 5000.0))
    report(run, 0, loss=[1.0])

    list(record.read(store, 1400.0))

    assert record.points == 1


def test_a_resumed_run_is_read_again_without_what_is_done_again(store, supervisor, queue):
    run = queue("digits")
    supervisor.put_run_fact(run.id, ranks=1, generation=1, iteration=5)
    reported(supervisor, run.execution, range(1, 6))
    record = RunRecord(run)
    list(record.read(store, 100.0))
    before = len(record.curves["loss"]), record.version

    supervisor.attempts.continue_run(supervisor.run(run.id).fact, "")
    resumed = supervisor.run(run.id)
    supervisor.put_run_fact(run.id, resumed_at=3, resumed=101.0)
    supervisor.reports.add_batches([event_batch(resumed.execution, TrainingResumed(3), time=0.0)])
    list(record.read(store, 102.0))

    assert before[0] == 5
    assert (len(record.curves["loss"]), record.rereads) == (3, 1)
    assert record.version > before[1]
    assert {n: names["loss"].trace().iterations for n, names in record.redone.items()} == {
        1: (4, 5)
    }
    other = RunRecord(store.run(run.id))
    other.read_points(store)
    assert other.redone.keys() == {1}


def test_of_what_is_done_again_only_reported_values_are_drawn(store, supervisor, queue):
    run = queue("digits")
    supervisor.put_run_fact(run.id, ranks=1, generation=1, iteration=5)
    samples = [Sample(name, 5, 0.0, 1.0) for name in ("loss", "step/data", "elapsed_time")]
    supervisor.reports.add_batches([Batch(run.execution, 0, 1, tuple(samples))])
    supervisor.attempts.continue_run(supervisor.run(run.id).fact, "")
    execution = supervisor.run(run.id).execution
    supervisor.reports.add_batches([event_batch(execution, TrainingResumed(3), time=0.0)])

    record = RunRecord(store.run(run.id))
    record.read_points(store)

    assert [*record.redone[1]] == ["loss"]


def reported(store: Store, execution: str, iterations: range) -> None:
    samples = tuple(Sample("loss", n, 0.0, 1.0) for n in iterations)
    store.reports.add_batches([Batch(execution, 0, 1, samples)])


def traces(record: RunRecord) -> dict[str, str]:
    return {name: repr(curve.trace()) for name, curve in record.curves.items()}


@pytest.fixture
def long_run(store, queue, report):
    """A run whose curves the supervisor has saved, with more points since."""
    run = queue("digits")
    for first in range(0, 900, 300):
        report(run, 0, loss=[*range(first, first + 300)], step__data=[0.1])
        report(run, 1, loss=[*range(first, first + 300)])
        if not first:
            saving = CurveSaving(store, run.wish.cluster, least=300)
            for turn in range(4):
                saving.turn(float(turn))
    return run


@pytest.mark.parametrize("capacity", [2_000, 400, 16])
def test_a_long_run_is_read_from_its_saved_curves_on(store, long_run, capacity, monkeypatch):
    saved = store.curves.read_saved(long_run.id)
    record = RunRecord(long_run, capacity)
    read = list[int]()
    columns = store.reports.point_columns

    def point_columns(run: str, after: int, *rest: object) -> object:
        read.append(after)
        return columns(run, after, *rest)

    monkeypatch.setattr(store.reports, "point_columns", point_columns)
    record.read_points(store)
    monkeypatch.setattr(store.curves, "read_saved", lambda run: None)
    whole = RunRecord(long_run, capacity)
    whole.read_points(store)

    assert (saved.points, read[0]) == (600, saved.last)
    assert (record.points, traces(record)) == (1800, traces(whole))


@pytest.mark.parametrize("what", ["damaged", "smaller"])
def test_without_usable_saved_curves_all_points_are_read(store, long_run, what):
    capacity = 400
    if what == "damaged":
        store.curves.save(long_run.id, SavedCurves(601, 600, b"PK"), 0)
    else:
        capacity = 4_000
    record = RunRecord(long_run, capacity)

    record.read_points(store)

    assert record.points == 1800
    assert record.curves["loss"].capacity == capacity


def test_the_attempts_that_failed_are_listed_and_those_that_moved_are_not(
    store, supervisor, queue
) -> None:
    run = queue("digits").id
    supervisor.put_run_fact(run, ranks=2, started=1.0, iteration=6)
    past = supervisor.run(run).fact
    supervisor.attempts.continue_run(replace(past, state=RunState.STOPPED), "It left its 2 ranks.")
    lost = replace(supervisor.run(run).fact, state=RunState.FAILED, failure="ValueError: NaN")
    supervisor.attempts.continue_run(lost, "Rank 1 failed. Retry 1 of 3.", failed_at=1_200)

    (line,) = failed_attempts(store, store.run(run))
    feed = Feed(store, run)
    feed.read(100.0)
    asked = full_run_message(store, store.run(run), 1.0)
    (listed,) = listed_runs(store, None, 9, 1.0)

    assert line == "Attempt 2 failed at iteration 1,200: ValueError: NaN"
    assert len(asked.failures) == 1
    assert feed.run_message(100.0).failures == asked.failures
    assert listed.failures == ()
