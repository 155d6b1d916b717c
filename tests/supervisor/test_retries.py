"""A run that fails is tried again from its snapshot, unless that would end alike."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.supervisor.conftest import Stage
from workbench.core.recovery import life
from workbench.core.run.hang import STALLED_SECONDS
from workbench.core.run.metrics import seconds_taken
from workbench.core.run.model import Run, RunKind, RunState
from workbench.core.run.rank_protocol import Delivery, Pulse

RAISES = """
for iteration in range(resume(), 8):
    report(loss=1)
    if iteration == 3:
        snapshot()
    if iteration == 5 and rank == 1 and {when}:
        raise ValueError("flaky")
"""
WAITS = """
for iteration in range(resume(), 8):
    report(loss=1)
    if iteration == 3:
        snapshot()
    if iteration == 5:
        if rank == 0:
            barrier()
        sleep(600)
"""
WAITS_ONCE = WAITS.replace("iteration == 5", "iteration == 5 and not resume()")
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


def test_without_retries_the_first_failure_ends_a_script(stage: Stage) -> None:
    stage.up(2)

    run = script(stage, ONCE, retries=0)

    assert (run.fact.state, run.fact.attempt) == (RunState.FAILED, 1)
    assert "no retries were asked for" in run.fact.message


def test_a_cell_that_raises_ends_at_once(stage: Stage) -> None:
    stage.up(2)

    run = stage.ended(stage.ask(ONCE))

    assert (run.fact.state, run.fact.attempt) == (RunState.FAILED, 1)


@pytest.mark.parametrize("source", ["raise SystemExit(3)", "raise ValueError('early')"])
def test_a_script_without_a_snapshot_is_not_tried_again(stage: Stage, source) -> None:
    stage.up(2)

    assert script(stage, source).fact.attempt == 1


def test_the_time_of_a_run_is_that_of_all_its_attempts(stage: Stage) -> None:
    stage.up(2)

    run = script(stage, ONCE.replace("report(loss=1)", "report(loss=1)\n    sleep(0.1)"))
    (past,) = stage.store.attempts.past(run.id)
    first, last = past.ended - past.started, run.fact.ended - run.fact.resumed

    assert first > 0.5
    assert seconds_taken(run.fact, 0.0) == pytest.approx(first + last)


@pytest.mark.parametrize(("source", "state"), [(WAITS_ONCE, "finished"), (WAITS, "failed")])
def test_ranks_that_wait_for_each_other_for_good_are_replaced(
    stage: Stage, monkeypatch: pytest.MonkeyPatch, source: str, state: str
) -> None:
    stage.up(2)
    run = stage.ask(source)
    receive = stage.cluster.receive

    def with_pulse(seconds: float) -> list[Delivery]:
        present = stage.store.run(run)
        is_there = present.fact.iteration == 6
        pulses = [
            Pulse(present.execution, n, 6, call="barrier", seconds=STALLED_SECONDS + 1)
            for n in (0, 1)
        ]
        messages = [Delivery(present.fact.generation, one) for one in pulses]
        return [*receive(seconds), *messages * is_there]

    monkeypatch.setattr(stage.cluster, "receive", with_pulse)

    found = stage.ended(run).fact

    past = stage.store.attempts.past(run)
    assert found.state == state
    assert {one.failed_at for one in past} == {6}
    why = "Ranks 0, 1 waited in barrier for 61 s, and nothing was sent."
    assert past[0].message.startswith(why)
    assert f"Retry {len(past)} of 3." in past[-1].message


def test_a_run_whose_ranks_import_for_a_while_says_what(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(life, "IMPORT_SECONDS", 0.0)
    stage.up(2)
    run = stage.ask("sleep(60)")
    receive = stage.cluster.receive

    def with_pulse(seconds: float) -> list[Delivery]:
        present = stage.store.run(run)
        pulse = Pulse(present.execution, 0, 0, line=1, doing="import torch")
        return [*receive(seconds), Delivery(present.fact.generation, pulse)]

    monkeypatch.setattr(stage.cluster, "receive", with_pulse)

    stage.until(lambda: stage.store.run(run).fact.message == "The ranks import torch.")
    stage.store.wish_stop(run)
    found = stage.ended(run).fact

    assert "torch" not in found.message


@pytest.mark.parametrize("is_script", [False, True], ids=["a cell", "a script with a snapshot"])
def test_ranks_that_wait_for_one_that_has_ended_end_the_run(
    stage: Stage, monkeypatch: pytest.MonkeyPatch, *, is_script: bool
) -> None:
    stage.up(2)
    source = "if rank == 0:\n    barrier()\n"
    run = stage.ask(f"report(loss=1)\nsnapshot()\n{source}" if is_script else source)
    receive = stage.cluster.receive

    def with_pulse(seconds: float) -> list[Delivery]:
        present = stage.store.run(run)
        pulse = Pulse(present.execution, 0, 0, call="barrier", seconds=STALLED_SECONDS, line=2)
        is_alone = [*stage.store.reports.endings(run)] == [1]
        return [*receive(seconds), *[Delivery(present.fact.generation, pulse)] * is_alone]

    monkeypatch.setattr(stage.cluster, "receive", with_pulse)

    found = stage.ended(run).fact

    assert (found.state, found.attempt) == (RunState.FAILED, 1)
    assert found.message.startswith(
        "Rank 0 has waited in barrier for 60 s (line 2 of the cell); rank 1 has ended, so it will "
        "never come."
    )
    stage.until(lambda: stage.ended(stage.ask("pass")).fact.state is RunState.FINISHED)
