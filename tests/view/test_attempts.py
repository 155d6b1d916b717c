"""Marks on a run's curves and headings in its output say why it continued, and what that cost."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.batches import event_batch, report_news
from workbench.core.cluster.model import ResizeAt
from workbench.core.recovery.resumption import Continuation, ContinuationCause
from workbench.core.run.model import RunState
from workbench.core.run.rank_protocol import (
    Batch,
    Chunk,
    SnapshotSaved,
    TrainingResumed,
)
from workbench.pages.feed import Feed
from workbench.pages.messages import full_run_message, listed_runs
from workbench.store import Store
from workbench.view.attempts import AttemptHeadings, mark, marks_of, output_before


@pytest.mark.parametrize(
    ("cause", "redone", "ranks", "pause", "text"),
    [
        (ContinuationCause.MOVE, 0, (2, 3), 0.8, "2 → 3 ranks, 800 ms"),
        (ContinuationCause.MOVE, 0, (2, 1), 0.8, "2 → 1 rank, 800 ms"),
        (ContinuationCause.MOVE, 0, (2, 2), 0.8, "moved, 800 ms"),
        (ContinuationCause.LOSS, 22, (2, 2), 4.1, "rank lost, 22 steps redone, 4.1 s"),
        (ContinuationCause.LOSS, 1, (3, 2), 4.1, "rank lost, 3 → 2 ranks, 1 step redone, 4.1 s"),
        (ContinuationCause.LOSS, 0, (2, 2), 0.0, "rank lost"),
        (ContinuationCause.REQUEST, 0, (2, 2), 172_800.0, "resumed"),
        (ContinuationCause.REQUEST, 22, (2, 4), 9.0, "resumed, 2 → 4 ranks, 22 steps redone"),
    ],
)
def test_a_mark_says_why_and_at_what_cost(cause, redone, ranks, pause, text) -> None:
    where = Continuation(120, cause, redone, *ranks, 0)

    made = mark(where, pause)

    assert (made.iteration, made.text) == (120, text)


@pytest.mark.parametrize(
    ("redone", "ranks", "text"),
    [
        (0, (4, 3), "moved off r-3, 4 → 3 ranks, 0 steps redone, 800 ms"),
        (0, (4, 4), "moved off r-3, 0 steps redone, 800 ms"),
        (7, (4, 4), "moved off r-3, 7 steps redone, 800 ms"),
    ],
)
def test_a_mark_names_the_node_that_was_left_in_time(redone, ranks, text) -> None:
    where = Continuation(120, ContinuationCause.MOVE, redone, *ranks, 0, "r-3")

    assert mark(where, 0.8).text == text


@pytest.mark.parametrize(
    ("at", "known", "iteration", "text"),
    [
        (ResizeAt.EPOCH, {"epoch": 2.5}, 120, "to 4 ranks at the end of the epoch"),
        (ResizeAt.EPOCH, {"iterations_total": 700}, 700, "to 4 ranks after the run"),
        (ResizeAt.END, {"epoch": 2.5, "epochs_total": 5.0}, 200, "to 4 ranks after the run"),
        (ResizeAt.END, {}, 100, "to 4 ranks after the run"),
    ],
)
def test_a_resize_that_is_pending_is_marked_where_the_run_is_to_move(
    store, supervisor, queue, at, known, iteration, text
) -> None:
    run = queue("digits")
    state = {"state": RunState.RUNNING, "ranks": 2, "iteration": 100, **known}
    supervisor.put_run_fact(run.id, **state)
    store.wish_cluster(run.wish.cluster, up=True, ranks=4, resize_at=at)

    (made,) = marks_of(store, store.run(run.id))
    supervisor.put_run_fact(run.id, hindrance="Its code cannot follow.")

    assert (made.iteration, made.text, made.is_pending) == (iteration, text, True)
    assert marks_of(store, store.run(run.id)) == ()


@pytest.mark.parametrize(
    ("ranks", "at"), [(2, ResizeAt.EPOCH), (4, ResizeAt.STEP)], ids=["its own size", "next step"]
)
def test_a_run_that_stays_or_moves_at_once_has_no_pending_mark(
    store, supervisor, queue, ranks, at
) -> None:
    run = queue("digits")
    supervisor.put_run_fact(run.id, state=RunState.RUNNING, ranks=2, iteration=100, epoch=2.5)
    store.wish_cluster(run.wish.cluster, up=True, ranks=ranks, resize_at=at)

    assert marks_of(store, store.run(run.id)) == ()


@pytest.fixture
def run(store, supervisor, queue):
    """A run that lost its ranks at iteration 6 and continues from its snapshot of iteration 4."""
    made = queue("digits")
    supervisor.put_run_fact(made.id, ranks=2, started=1.0, iteration=6)
    report_news(
        supervisor, made.id, 1, ("loss", 4, 14.0), (SnapshotSaved, 4, 14.5), ("loss", 6, 16.0)
    )
    past = replace(supervisor.run(made.id).fact, state=RunState.LOST, ended=17.0)
    supervisor.attempts.continue_run(past, "Continues from iteration 4.")
    return made


def continues(supervisor: Store, run: str) -> None:
    """Let the next attempt read the snapshot and report its first value."""
    execution = supervisor.run(run).execution
    supervisor.put_run_fact(run, state=RunState.RUNNING, resumed_at=4, resumed=19.0, ranks=2)
    report_news(supervisor, execution, 1, (TrainingResumed, 4, 19.0), ("loss", 5, 20.5))


def test_a_run_is_marked_once_it_has_read_its_snapshot(store, supervisor, run) -> None:
    waiting = marks_of(store, store.run(run.id))
    continues(supervisor, run.id)

    (made,) = marks_of(store, store.run(run.id))

    assert waiting == ()
    assert (made.iteration, made.text) == (4, "rank lost, 2 steps redone, 4.5 s")


def test_a_page_gets_the_marks_of_its_run_and_not_of_a_list(store, supervisor, run) -> None:
    continues(supervisor, run.id)
    feed = Feed(store, run.id)
    feed.read(100.0)

    asked = full_run_message(store, store.run(run.id), 1.0)
    (listed,) = listed_runs(store, None, 9, 1.0)

    assert [one.iteration for one in asked.marks] == [4]
    assert feed.run_message(100.0).marks == asked.marks
    assert listed.marks == ()


def test_resume_is_offered_for_a_run_that_ended_early_with_a_snapshot(
    store, supervisor, run
) -> None:
    continues(supervisor, run.id)
    feed = Feed(store, run.id)
    offered = {}
    for state in RunState:
        supervisor.put_run_fact(run.id, state=state)
        feed.read(100.0)
        said = full_run_message(store, store.run(run.id), 1.0).is_resumable
        assert feed.run_message(100.0).is_resumable is said
        offered[state] = said

    assert {state for state, said in offered.items() if said} == {
        RunState.STOPPED, RunState.FAILED, RunState.LOST,
    }  # fmt: skip


LOST = "Rank 1 on node-1 was lost (killed by signal 9)."
FIRST = "attempt 1, 4 ranks"
SECOND = f"attempt 2, 4 → 3 ranks, from iteration 140: {LOST} Lost at least 21 steps."


def prints(store: Store, run: str, sequence: int, *lines: str) -> None:
    """Let rank 0 write lines, in a piece of output each."""
    execution = store.run(run).execution
    chunks = tuple(Chunk("stdout", 1.0, f"{line}\n") for line in lines)
    store.reports.add_batches([Batch(execution, 0, sequence, chunks=chunks)])


def loses_a_rank(store: Store, run: str) -> None:
    """Queue the next attempt, on a rank less."""
    past = replace(store.run(run).fact, state=RunState.LOST, message=LOST)
    store.attempts.continue_run(past, "It continues.")
    store.put_run_fact(run, ranks=3, resumed_at=140)  # newer than what was reported


def said(headings: AttemptHeadings, store: Store, run: str, after: int = 0) -> list[str]:
    """Return headings and output as one text each."""
    parts = headings.split(store, store.reports.output(run, after))
    return [text for heading, rows in parts for text in (heading, *(row.text for row in rows))]


@pytest.fixture
def printed(supervisor, queue) -> str:
    made = queue("digits")
    supervisor.put_run_fact(made.id, ranks=4, started=1.0, iteration=161)
    supervisor.reports.add_batches([event_batch(made.id, SnapshotSaved(120))])
    prints(supervisor, made.id, 2, "one", "two")
    return made.id


def test_a_run_of_one_attempt_has_no_heading(store, printed) -> None:
    assert said(AttemptHeadings(printed), store, printed) == ["", "one\n", "two\n"]


def test_each_attempt_has_a_heading_with_why_it_was_begun(store, supervisor, printed) -> None:
    loses_a_rank(supervisor, printed)
    prints(supervisor, printed, 1, "three")

    found = said(AttemptHeadings(printed), store, printed)

    assert found == [FIRST, "one\n", "two\n", SECOND, "three\n"]


def test_a_reader_that_is_there_already_gets_only_the_new_heading(
    store, supervisor, printed
) -> None:
    headings = AttemptHeadings(printed)
    said(headings, store, printed)
    loses_a_rank(supervisor, printed)
    prints(supervisor, printed, 1, "three")
    last = output_before(store, printed)

    found = said(headings, store, printed, last)
    prints(supervisor, printed, 2, "four")

    assert found == [SECOND, "three\n"]
    assert said(headings, store, printed, last + 1) == ["", "four\n"]


def test_who_resumes_a_run_does_not_read_what_it_wrote_before(store, supervisor, printed) -> None:
    before = output_before(store, printed)
    loses_a_rank(supervisor, printed)
    prints(supervisor, printed, 1, "three")

    found = said(AttemptHeadings(printed), store, printed, output_before(store, printed))

    assert before == 0
    assert found == [SECOND, "three\n"]


def test_an_attempt_that_was_requested_is_only_resumed(store, supervisor, printed) -> None:
    supervisor.put_run_fact(printed, state=RunState.STOPPED, message="Stopped at iteration 161.")
    past = supervisor.run(printed)
    supervisor.attempts.resume_run(past.fact, "Continues.", past.wish)
    supervisor.put_run_fact(printed, resumed_at=161)
    prints(supervisor, printed, 1, "three")

    assert "attempt 2, 4 ranks, from iteration 161: resumed" in said(
        AttemptHeadings(printed), store, printed
    )
