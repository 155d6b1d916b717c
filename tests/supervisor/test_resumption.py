"""Runs that lose or leave their world continue from their newest snapshot, under the same name."""

from __future__ import annotations

import re

import pytest

from tests.batches import batch_of
from tests.simulation.thread_cluster import ThreadCluster
from tests.supervisor.conftest import NAME, Stage
from workbench.core.cluster.generation import NOT_READY, OTHER_SIZE, Death, Submit
from workbench.core.recovery import resumption
from workbench.core.recovery.resumption import NO_COPY, NONE
from workbench.core.run.batch import WANTED_VARIABLE
from workbench.core.run.model import Assignment, Run, RunState
from workbench.core.run.rank_protocol import Delivery, EventReport, Sample, SnapshotSaved
from workbench.supervisor.fleet.fleet_loop import Load
from workbench.supervisor.heartbeat import read_clocks
from workbench.supervisor.loop import Supervisor

# Ten iterations, with a snapshot at the fourth; the first attempt dies in the sixth.
DIES_ONCE = """
first = resume()
for iteration in range(first, 10):
    report(loss=iteration + 1)
    if rank == 0 and iteration == 3:
        snapshot()
    barrier()
    if iteration == 5 and not first:
        kill() if rank == 1 else sleep(60)
"""


def losses(stage: Stage, run: str) -> list[tuple[int, int]]:
    """Return rank and iteration of each reported loss, in order."""
    return sorted(
        (p.rank, p.iteration) for p in stage.store.reports.points(run) if p.name == "loss"
    )


def test_a_run_whose_rank_was_killed_continues_from_its_newest_snapshot(stage: Stage) -> None:
    stage.up(2)

    run = stage.ended(stage.ask(DIES_ONCE))

    fact = run.fact
    assert (fact.state, fact.attempt, fact.generation) == (RunState.FINISHED, 2, 2)
    assert (fact.resumed_at, fact.iteration) == (4, 10)
    assert losses(stage, run.id) == [(rank, n) for rank in (0, 1) for n in range(1, 11)]
    assert re.fullmatch(
        r"Rank 1 on fakehost was lost \(killed by its own cell\)\. "
        r"Retry 1 of 3\. Lost at least 2 steps( \([\d.]+ m?s\))?\. Continued from iteration 4\.",
        fact.message,
    )
    (past,) = stage.store.attempts.past(run.id)
    assert (past.state, past.iteration, past.snapshot) == (RunState.LOST, 6, 4)
    assert fact.started == past.started
    assert stage.store.attempts.newest_snapshot(run.id) == 4


@pytest.mark.parametrize("is_lost", [True, False])
def test_a_power_cut_is_no_failure_of_the_run(stage: Stage, is_lost: bool) -> None:
    stage.up(2)
    run = stage.ask(DIES_ONCE.replace("kill() if rank == 1 else ", ""))
    stage.until(lambda: stage.store.attempts.newest_snapshot(run) == 4)
    snapshots = stage.cluster.snapshots
    stage.cluster.close()
    stage.cluster = ThreadCluster()
    stage.cluster.snapshots, stage.cluster.is_lost = snapshots, is_lost
    stage.supervisor = Supervisor(NAME, stage.own, stage.cluster, read_clocks)
    stage.supervisor.open()

    assert stage.ended(run).fact.state is RunState.FINISHED

    (past,) = stage.store.attempts.past(run)
    assert (past.state, past.failed) == (RunState.LOST, not is_lost)
    why = "as after a power cut" if is_lost else "while no supervisor ran"
    assert why in past.message


def test_a_run_without_a_snapshot_ends_with_its_rank(stage: Stage) -> None:
    stage.up(2)

    run = stage.ended(stage.ask("report(loss=1)\nif rank == 1:\n    kill()\nbarrier()"))

    assert (run.fact.state, run.fact.attempt) == (RunState.FAILED, 1)
    assert stage.store.attempts.past(run.id) == []


NEVER_SAVES = """
first = resume()
for iteration in range(first, 6):
    report(loss=iteration + 1)
    sleep(60) if WAITS else barrier()
"""


def lose_node(stage: Stage, run: str) -> None:
    """Lose the node of the present attempt once it has done an iteration."""
    attempt = stage.store.run(run).fact.attempt
    stage.until(lambda: stage.store.run(run).fact.iteration == 1)
    world = stage.cluster.worlds[stage.store.run(run).fact.generation]
    world.deaths = (Death(1, "fakehost", "its node is gone", is_lost=True),)
    stage.until(lambda: stage.store.run(run).fact.attempt == attempt + 1 or is_over(stage, run))


def is_over(stage: Stage, run: str) -> bool:
    return stage.store.run(run).fact.state.ended


def test_a_run_whose_node_is_lost_before_its_first_snapshot_begins_again(stage: Stage) -> None:
    stage.up(2)
    run = stage.ask("WAITS = attempt() < 3" + NEVER_SAVES)
    lose_node(stage, run)
    lose_node(stage, run)

    fact = stage.ended(run).fact

    assert (fact.state, fact.attempt, fact.resumed_at) == (RunState.FINISHED, 3, 0)
    assert losses(stage, run) == [(rank, n) for rank in (0, 1) for n in range(1, 7)]
    assert re.sub(r" \([\d.]+ .s\)", "", fact.message) == (
        "Rank 1 on fakehost was lost (its node is gone). Lost at least 1 step. "
        "It begins again at iteration 0, on 2 ranks."
    )


def test_a_run_that_begins_again_on_fewer_ranks_knows_how_many_it_had(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    submit, wanted = stage.cluster.submit, dict[int, str]()

    def note(generation: int, assignment: Assignment) -> None:
        wanted[assignment.attempt] = dict(assignment.environment).get(WANTED_VARIABLE, "")
        submit(generation, assignment)

    monkeypatch.setattr(stage.cluster, "submit", note)
    stage.up(2)
    run = stage.ask("WAITS = attempt() < 2" + NEVER_SAVES)
    stage.until(lambda: stage.store.run(run).fact.iteration == 1)
    stage.store.wish_cluster(NAME, up=True, ranks=1)
    lose_node(stage, run)

    fact = stage.ended(run).fact

    assert (fact.state, fact.ranks, fact.ranks_before) == (RunState.FINISHED, 1, 2)
    assert wanted == {1: "", 2: "2"}


def test_a_run_all_of_whose_copies_are_gone_begins_again(stage: Stage, monkeypatch) -> None:
    def lose_all(run: Run) -> bool:
        stage.cluster.snapshots.clear()
        return run.fact.attempt == 2

    monkeypatch.setattr(stage.supervisor._files, "has_lost_all", lose_all)
    stage.up(2)
    saves = "\n    if attempt() == 1:\n        snapshot()"
    run = stage.ask(
        "WAITS = attempt() < 3" + NEVER_SAVES.replace("\n    sleep", f"{saves}\n    sleep")
    )
    lose_node(stage, run)
    saved = stage.store.attempts.past(run)[0].snapshot
    lose_node(stage, run)

    fact = stage.ended(run).fact

    assert (fact.state, fact.attempt, fact.resumed_at) == (RunState.FINISHED, 3, 0)
    assert losses(stage, run) == [(rank, n) for rank in (0, 1) for n in range(1, 7)]
    assert re.sub(r" \([\d.]+ .s\)", "", fact.message) == (
        "Rank 1 on fakehost was lost (its node is gone). Lost at least 1 step. "
        "It begins again at iteration 0, on 2 ranks."
    )
    first, second = stage.store.attempts.past(run)
    assert first.message == f"Rank 1 on fakehost was lost (its node is gone). {NO_COPY}"
    assert (saved, first.snapshot, second.snapshot) == (1, NONE, NONE)
    assert stage.store.attempts.newest_snapshot(run) == NONE


def test_a_run_that_is_always_lost_before_its_first_snapshot_ends(
    stage: Stage, monkeypatch
) -> None:
    monkeypatch.setattr(resumption, "MOST_VAIN", 2)
    stage.up(2)
    run = stage.ask("WAITS = True" + NEVER_SAVES)
    for _ in range(3):
        lose_node(stage, run)

    fact = stage.ended(run).fact

    assert (fact.state, fact.attempt) == (RunState.FAILED, 3)
    assert fact.message.endswith(
        "It does not begin again by itself: it was lost 3 times in a row before it had completed "
        "a snapshot. Run the cell again."
    )


def test_a_run_whose_rank_is_killed_before_its_first_snapshot_begins_again(stage: Stage) -> None:
    stage.up(2)
    source = "resume()\nreport(loss=1)\nif rank == 1 and attempt() == 1:\n    kill()\nbarrier()"

    fact = stage.ended(stage.ask(source)).fact

    assert (fact.state, fact.attempt, fact.resumed_at) == (RunState.FINISHED, 2, 0)
    assert "It begins again at iteration 0" in fact.message


def test_a_run_whose_rank_is_killed_twice_before_its_first_iteration_ends(stage: Stage) -> None:
    stage.up(2)

    fact = stage.ended(stage.ask("resume()\nif rank == 1:\n    kill()\nbarrier()")).fact

    assert (fact.state, fact.attempt) == (RunState.FAILED, 2)
    assert "it failed twice before its first iteration" in fact.message


def test_a_run_whose_ranks_are_killed_again_and_again_ends(stage: Stage) -> None:
    stage.up(2)
    source = "first = resume()\nreport(loss=1)\nfirst or snapshot()\nif rank == 1:\n    kill()"

    run = stage.ended(stage.ask(source + "\nbarrier()"))

    assert (run.fact.state, run.fact.attempt) == (RunState.FAILED, 4)
    assert "it has failed again after 3 retries" in run.fact.message
    assert f"`workbench run --resume {run.wish.name}`" in run.fact.message


def test_a_python_error_ends_a_run_that_has_snapshots(rigid: Stage) -> None:
    rigid.up(2)
    source = "report(loss=1)\nsnapshot()\nif rank == 1:\n    raise ValueError\nbarrier()"

    run = rigid.ended(rigid.ask(source))

    assert (run.fact.state, run.fact.attempt) == (RunState.FAILED, 1)


def test_a_run_that_is_asked_to_stop_while_it_is_lost_stops(stage: Stage) -> None:
    stage.up(2)
    run = stage.ask("report(loss=1)\nsnapshot()\nwhile True:\n    sleep(0.01)", grace=60)
    stage.until(lambda: stage.store.attempts.newest_snapshot(run) == 1)
    stage.store.wish_stop(run)
    stage.until(lambda: stage.store.run(run).fact.state is RunState.STOPPING)
    stage.cluster.worlds[1].die(0)

    fact = stage.ended(run).fact

    assert (fact.state, fact.attempt) == (RunState.FAILED, 1)


def test_a_run_that_asked_for_more_ranks_than_are_left_ends_on_those(stage: Stage) -> None:
    stage.up(3)
    source = """
for iteration in range(resume(), 400):
    report(loss=1)
    if iteration == 3:
        snapshot()
    if size == 2:
        break
    sleep(0.02)
"""
    run = stage.ask(source, ranks=3)
    stage.until(lambda: stage.store.attempts.newest_snapshot(run) == 4)
    stage.store.wish_cluster(NAME, up=True, ranks=2, oversubscribe=True)

    fact = stage.ended(run).fact

    assert (fact.state, fact.attempt, fact.ranks) == (RunState.FINISHED, 2, 2)


def test_a_run_moves_to_the_new_size_at_a_boundary(stage: Stage) -> None:
    stage.up(2)
    source = """
first = resume()
for iteration in range(first, 400):
    report(loss=1)
    if iteration == 3:
        snapshot()
    if size == 3:
        break
    sleep(0.02)
"""
    run = stage.ask(source, grace=0.0)
    stage.until(lambda: stage.store.attempts.newest_snapshot(run) == 4)
    stage.store.wish_cluster(NAME, up=True, ranks=3, oversubscribe=True)

    fact = stage.ended(run).fact

    assert (fact.state, fact.attempt, fact.ranks) == (RunState.FINISHED, 2, 3)
    assert fact.message.startswith("It moved from 2 ranks to another size. Continued from")
    assert "redone" not in fact.message
    (past,) = stage.store.attempts.past(run)
    assert (past.state, past.iteration) == (RunState.STOPPED, fact.resumed_at)


def test_a_run_without_snapshots_ends_before_the_size_changes(stage: Stage) -> None:
    stage.up(1)
    run = stage.ask("for _ in range(20):\n    report(loss=1)\n    sleep(0.02)")
    stage.until(lambda: stage.store.run(run).fact.iteration)
    stage.store.wish_cluster(NAME, up=True, ranks=2, oversubscribe=True)

    fact = stage.ended(run).fact

    assert (fact.state, fact.attempt, fact.ranks) == (RunState.FINISHED, 1, 1)


def test_a_run_that_moves_can_be_stopped(stage: Stage) -> None:
    stage.up(1)
    source = "resume()\nreport(loss=1)\nsnapshot()\nwhile True:\n    sleep(0.01)"
    run = stage.ask(source, grace=0.1)
    stage.until(lambda: stage.store.attempts.newest_snapshot(run) == 1)
    stage.store.wish_cluster(NAME, up=True, ranks=2, oversubscribe=True)
    stage.until(lambda: "new size" in stage.store.run(run).fact.message)
    stage.store.wish_stop(run)

    fact = stage.ended(run).fact

    assert (fact.state, fact.attempt) == (RunState.STOPPED, 1)


def test_what_an_earlier_attempt_still_sends_is_dropped(stage: Stage) -> None:
    stage.up(2)
    run = stage.ask(DIES_ONCE.replace("range(first, 10)", "range(first, 400)") + "    sleep(0.02)")
    stage.until(lambda: stage.store.run(run).fact.resumed_at == 4)
    saved = EventReport(SnapshotSaved(9), 1.0)
    stale = batch_of(run, 0, 1, [Sample("loss", 999, 1.0, 1.0), saved])
    stage.cluster._inbox.put(Delivery(2, stale))
    stage.cluster._inbox.put(Delivery(1, stale))
    stage.store.wish_stop(run)
    stage.ended(run)

    assert 999 not in {p.iteration for p in stage.store.reports.points(run)}


@pytest.mark.parametrize("state", [RunState.SUBMITTED, RunState.RUNNING])
def test_a_run_whose_ranks_ended_without_a_supervisor_continues(stage: Stage, state) -> None:
    stage.up(2)
    run = stage.ask(DIES_ONCE)
    stage.until(lambda: stage.store.run(run).fact.resumed_at == 4)
    stage.ended(run)
    stage.store.put_run_fact(run, state=state, ended=0.0, generation=9, iteration=7)
    stage.supervisor._runs.on.clear()
    stage.supervisor._take_up_runs()

    fact = stage.ended(run).fact

    assert (fact.state, fact.attempt, fact.resumed_at) == (RunState.FINISHED, 3, 4)


@pytest.mark.parametrize("why", [OTHER_SIZE, NOT_READY])
def test_a_run_continues_whose_world_a_new_supervisor_takes_for_unused(stage: Stage, why) -> None:
    stage.up(2)
    run = stage.ask(DIES_ONCE.replace("kill() if rank == 1 else sleep(60)", "sleep(60)"))
    stage.until(lambda: stage.store.attempts.newest_snapshot(run) == 4)

    stage.supervisor._end_world(1, why)
    fact = stage.ended(run).fact

    assert (fact.state, fact.attempt, fact.resumed_at) == (RunState.FINISHED, 2, 4)


def test_a_run_whose_world_is_lost_has_all_of_its_output_collected(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    ended: list[str] = []
    monkeypatch.setattr(stage.supervisor._files, "end", ended.append)
    stage.up(2)

    run = stage.ended(stage.ask("kill()"))

    assert ended == [run.id]


def test_a_run_waits_until_its_new_hosts_have_its_snapshots(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    are_placed: list[bool] = []
    monkeypatch.setattr(
        stage.supervisor._files,
        "can_begin",
        lambda run, hosts, fleet: run.fact.attempt == 1 or bool(are_placed),
    )
    stage.up(2)
    run = stage.ask(DIES_ONCE)
    stage.until(lambda: stage.store.run(run).fact.attempt == 2 and stage.store.ranks(NAME, 2))
    for _ in range(5):
        stage.supervisor._act(Submit(run, 2), stage.supervisor._now())
    waiting = stage.store.run(run).fact

    are_placed.append(True)

    assert waiting.state is RunState.QUEUED
    assert stage.ended(run).fact.resumed_at == 4


def test_no_more_nodes_are_bought_for_a_run_that_continues(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    stage.up(2)
    loads: list[Load] = []
    monkeypatch.setattr(stage.supervisor._hosts, "keep", lambda _, load, now: loads.append(load))
    run = stage.ask(DIES_ONCE)
    stage.until(lambda: stage.store.run(run).fact.started)
    loads.clear()

    stage.until(lambda: stage.store.run(run).fact.resumed)

    assert [load for load in loads if load.waiting] == []
