"""The run view lists the attempts that failed, with their steps and the last lines of errors."""

from __future__ import annotations

from dataclasses import replace

from workbench.core.run.model import RunState
from workbench.pages.feed import Feed
from workbench.pages.messages import full_run_message, listed_runs
from workbench.view.run_record import failed_attempts


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
