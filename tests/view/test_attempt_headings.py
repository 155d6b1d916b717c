"""The output of a run with several attempts has a heading for each."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.batches import event_batch
from workbench.core.run.model import RunState
from workbench.core.run.rank_protocol import Batch, Chunk, SnapshotSaved
from workbench.store import Store
from workbench.view.attempts import AttemptHeadings, output_before

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
def run(supervisor, queue) -> str:
    made = queue("digits")
    supervisor.put_run_fact(made.id, ranks=4, started=1.0, iteration=161)
    supervisor.reports.add_batches([event_batch(made.id, SnapshotSaved(120))])
    prints(supervisor, made.id, 2, "one", "two")
    return made.id


def test_a_run_of_one_attempt_has_no_heading(store, run) -> None:
    assert said(AttemptHeadings(run), store, run) == ["", "one\n", "two\n"]


def test_each_attempt_has_a_heading_with_why_it_was_begun(store, supervisor, run) -> None:
    loses_a_rank(supervisor, run)
    prints(supervisor, run, 1, "three")

    found = said(AttemptHeadings(run), store, run)

    assert found == [FIRST, "one\n", "two\n", SECOND, "three\n"]


def test_a_reader_that_is_there_already_gets_only_the_new_heading(store, supervisor, run) -> None:
    headings = AttemptHeadings(run)
    said(headings, store, run)
    loses_a_rank(supervisor, run)
    prints(supervisor, run, 1, "three")
    last = output_before(store, run)

    found = said(headings, store, run, last)
    prints(supervisor, run, 2, "four")

    assert found == [SECOND, "three\n"]
    assert said(headings, store, run, last + 1) == ["", "four\n"]


def test_who_resumes_a_run_does_not_read_what_it_wrote_before(store, supervisor, run) -> None:
    before = output_before(store, run)
    loses_a_rank(supervisor, run)
    prints(supervisor, run, 1, "three")

    found = said(AttemptHeadings(run), store, run, output_before(store, run))

    assert before == 0
    assert found == [SECOND, "three\n"]


def test_an_attempt_that_was_requested_is_only_resumed(store, supervisor, run) -> None:
    supervisor.put_run_fact(run, state=RunState.STOPPED, message="Stopped at iteration 161.")
    past = supervisor.run(run)
    supervisor.attempts.resume_run(past.fact, "Continues.", past.wish)
    supervisor.put_run_fact(run, resumed_at=161)
    prints(supervisor, run, 1, "three")

    assert "attempt 2, 4 ranks, from iteration 161: resumed" in said(
        AttemptHeadings(run), store, run
    )
