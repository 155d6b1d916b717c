"""A run that fails is tried again from its snapshot, unless that would end alike."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.supervisor.conftest import Stage
from workbench.core.run.metrics import seconds_taken
from workbench.core.run.model import Run, RunKind, RunState

RAISES = """
for iteration in range(resume(), 8):
    report(loss=1)
    if iteration == 3:
        snapshot()
    if iteration == 5 and rank == 1 and {when}:
        raise ValueError("flaky")
"""
ONCE = RAISES.format(when="not resume()")
ALWAYS = RAISES.format(when="True")


def script(stage: Stage, source: str, **options: int) -> Run:
    """Run a script to its end."""
    wish = stage.store.run(stage.ask("pass")).wish
    asked = replace(
        wish,
        id="260101-000000-zzzz",
        name="script",
        kind=RunKind.SCRIPT,
        source=source,
        path="/script.py",
        options=replace(wish.options, **options),
    )
    return stage.ended(stage.store.wish_run(asked).id)


def test_a_script_that_raises_is_tried_again_from_its_snapshot(stage: Stage) -> None:
    stage.up(2)

    run = script(stage, ONCE)

    (past,) = stage.store.attempts.past(run.id)
    assert (run.fact.state, run.fact.attempt, run.fact.iteration) == (RunState.FINISHED, 2, 8)
    assert (past.state, past.failed_at) == (RunState.FAILED, 6)
    assert past.failure == "ValueError: flaky"
    assert "Traceback" in past.error
    assert "failed: ValueError: flaky. Retry 1 of 3. Lost " in run.fact.message
    assert run.fact.message.endswith("Continued from iteration 4.")


def test_a_script_that_raises_alike_twice_ends_with_its_traceback(stage: Stage) -> None:
    stage.up(2)

    run = script(stage, ALWAYS)

    assert (run.fact.state, run.fact.attempt) == (RunState.FAILED, 2)
    assert "failed twice at iteration 6 with the same traceback" in run.fact.message
    assert "ValueError: flaky" in run.fact.error


def test_the_time_of_a_run_is_that_of_all_its_attempts(stage: Stage) -> None:
    stage.up(2)

    run = script(stage, ONCE.replace("report(loss=1)", "report(loss=1)\n    sleep(0.1)"))
    (past,) = stage.store.attempts.past(run.id)
    first, last = past.ended - past.started, run.fact.ended - run.fact.resumed

    assert first > 0.5
    assert seconds_taken(run.fact, 0.0) == pytest.approx(first + last)
