"""The loop on a fake cluster: desired states are reached, and runs end as the table says."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping, Sequence
from dataclasses import replace

import pytest

from tests.simulation.thread_cluster import ThreadCluster
from tests.supervisor.conftest import NAME, Stage
from workbench.core.cluster.generation import MOST_FAILURES, WorldFact, WorldState
from workbench.core.cluster.model import ClusterState
from workbench.core.recovery.life import AGAIN_SECONDS
from workbench.core.run.model import Assignment, RunState
from workbench.core.world.world import RankFact, World
from workbench.errors import StoreNewer
from workbench.store import Store
from workbench.supervisor.heartbeat import read_clocks
from workbench.supervisor.loop import Supervisor


def test_a_run_goes_through_and_leaves_its_points_and_output(stage: Stage) -> None:
    stage.up(2)

    run = stage.ended(stage.ask("report(loss=rank)\nprint('hello')"))

    assert run.fact.state is RunState.FINISHED
    assert run.fact.ranks == 2
    assert run.fact.started <= run.fact.ended
    assert sorted(p.value for p in stage.store.reports.points(run.id)) == [0.0, 1.0]
    assert sorted(o.rank for o in stage.store.reports.output(run.id)) == [0, 1]


def test_runs_that_wait_go_one_after_another(stage: Stage) -> None:
    stage.up(1)
    first, second = stage.ask("sleep(0.3)"), stage.ask("print('second')")

    stage.until(lambda: stage.store.run(first).fact.state is RunState.RUNNING)
    waiting = stage.store.run(second).fact.state
    run = stage.ended(second)

    assert waiting is RunState.QUEUED
    assert run.fact.state is RunState.FINISHED
    assert stage.store.run(first).fact.ended <= run.fact.started


def test_a_run_that_was_lost_on_its_way_to_a_rank_is_submitted_again(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    stage.up(2)
    submitted: list[Assignment] = []

    def reach_one_rank_more_each_time(generation: int, assignment: Assignment) -> None:
        submitted.append(assignment)
        if len(submitted) > 1:
            ThreadCluster.submit(
                stage.cluster, generation, replace(assignment, ranks=len(submitted) - 1)
            )

    monkeypatch.setattr(stage.cluster, "submit", reach_one_rank_more_each_time)
    run = stage.ask("report(loss=rank)")
    stage.until(lambda: submitted)
    stage.later += AGAIN_SECONDS
    stage.until(lambda: stage.store.run(run).fact.state is RunState.RUNNING)
    stage.until(lambda: stage.supervisor._runs.on[1].life.ranks[0].ending)
    stage.later += 2 * AGAIN_SECONDS

    fact = stage.ended(run).fact

    assert fact.state is RunState.FINISHED
    assert sorted(p.value for p in stage.store.reports.points(run)) == [0.0, 1.0]
    assert submitted == 3 * submitted[:1]  # all ranks get the same port


def test_the_failed_rank_is_named_with_its_own_error(stage: Stage) -> None:
    stage.up(2)

    run = stage.ended(stage.ask("if rank == 1:\n    raise ValueError('no')\nbarrier()"))

    assert run.fact.state is RunState.FAILED
    assert (run.fact.failed_rank, run.fact.failed_host) == (1, "fakehost")
    assert "ValueError: no" in run.fact.error
    assert "Rank 1 on fakehost failed: ValueError: no." in run.fact.message
    assert run.fact.failure == "ValueError: no"


def test_the_next_run_follows_on_the_same_world_when_ranks_could_be_freed(stage: Stage) -> None:
    stage.up(2)
    stage.ended(stage.ask("if rank == 1:\n    raise ValueError\nbarrier()"))

    run = stage.ended(stage.ask("barrier()\nreport(loss=1)"))

    assert (run.fact.state, run.fact.generation) == (RunState.FINISHED, 1)


def test_where_ranks_cannot_be_freed_the_next_run_gets_a_new_world(rigid: Stage) -> None:
    rigid.up(2)
    failed = rigid.ended(rigid.ask("if rank == 1:\n    raise ValueError\nbarrier()"))

    run = rigid.ended(rigid.ask("report(loss=1)"))

    assert (run.fact.state, run.fact.generation) == (RunState.FINISHED, 2)
    assert "The ranks are restarted" in rigid.store.run(failed.id).fact.message
    assert run.fact.message.startswith("Ran on restarted ranks")


def test_a_killed_rank_is_named_and_the_world_is_started_again(stage: Stage) -> None:
    stage.up(2)

    failed = stage.ended(stage.ask("if rank == 1:\n    kill()\nbarrier()"))
    run = stage.ended(stage.ask("report(loss=1)"))

    assert failed.fact.failed_rank == 1
    assert "The ranks are restarted" in failed.fact.message
    assert (run.fact.state, run.fact.generation) == (RunState.FINISHED, 2)


def test_a_stop_is_taken_at_one_boundary_by_all_ranks(stage: Stage) -> None:
    stage.up(2)
    run = stage.ask("while True:\n    report(loss=1)\n    sleep(0.02)")
    stage.until(lambda: stage.store.run(run).fact.iteration > 2)

    stage.store.wish_stop(run)

    fact = stage.ended(run).fact
    last = {p.rank: p.iteration for p in stage.store.reports.points(run)}
    assert fact.state is RunState.STOPPED
    assert fact.message == f"Stopped at iteration {fact.iteration:,}."
    assert (fact.stopped_at, fact.remark) == (fact.iteration, "")
    assert set(last.values()) == {fact.iteration}


def test_a_run_without_boundaries_is_interrupted_after_its_grace(stage: Stage) -> None:
    stage.up(1)
    run = stage.ask("while True:\n    sleep(0.02)", grace=0.3)
    stage.until(lambda: stage.store.run(run).fact.state is RunState.RUNNING)

    stage.store.wish_stop(run)

    assert stage.ended(run).fact.state is RunState.STOPPED
    assert stage.ended(stage.ask("report(loss=1)")).fact.generation == 1


def test_a_run_that_does_not_stop_is_ended_with_its_world(stage: Stage) -> None:
    stage.up(1)
    run = stage.ask(
        "while True:\n    try:\n        sleep(1)\n    except KeyboardInterrupt:\n        pass",
        grace=0.1,
    )
    stage.until(lambda: stage.store.run(run).fact.state is RunState.RUNNING)

    stage.store.wish_stop(run)

    assert "The ranks are restarted" in stage.ended(run).fact.message
    assert stage.ended(stage.ask("report(loss=1)")).fact.generation == 2


def test_a_queued_run_that_is_stopped_never_begins(stage: Stage) -> None:
    stage.up(1)
    stage.ask("sleep(0.3)")
    run = stage.ask("report(loss=1)")

    stage.store.wish_stop(run)

    assert stage.ended(run).fact.message == "Stopped before it began."
    assert stage.store.reports.points(run) == []


def test_a_run_over_its_wall_clock_limit_is_stopped(stage: Stage) -> None:
    stage.up(1)

    run = stage.ended(stage.ask("while True:\n    report(loss=1)\n    sleep(0.02)", limit=0.2))

    assert run.fact.state is RunState.STOPPED
    assert run.fact.message.endswith(". It reached its wall-clock limit of 0.2 s.")


def test_a_resize_is_the_next_generation_and_ends_the_one_before(stage: Stage) -> None:
    stage.up(2)

    stage.store.wish_cluster(NAME, up=True, ranks=3, oversubscribe=True)

    stage.until(lambda: stage.store.cluster_fact(NAME).ranks == 3)
    stage.until(lambda: list(stage.cluster.worlds) == [2])
    assert stage.store.cluster_fact(NAME).generation == 2


def test_a_resize_waits_for_the_run_that_is_on(stage: Stage) -> None:
    stage.up(2)
    run = stage.ask("for i in range(20):\n    report(loss=i)\n    sleep(0.02)")
    stage.until(lambda: stage.store.run(run).fact.iteration > 2)

    stage.store.wish_cluster(NAME, up=True, ranks=1, oversubscribe=True)

    assert stage.ended(run).fact.iteration == 20
    stage.until(lambda: stage.store.cluster_fact(NAME).ranks == 1)


def test_set_up_cells_are_repeated_in_each_generation_before_any_run(stage: Stage) -> None:
    stage.store.put_setup(NAME, "first", "print('set up')")
    stage.up(1)
    stage.store.wish_cluster(NAME, up=True, ranks=2, oversubscribe=True)
    run = stage.ended(stage.ask("print('run')"))

    repeats = [r for r in stage.store.runs(setups=True) if r.wish.kind == "setup"]

    assert sorted((r.fact.generation, r.fact.ranks) for r in repeats) == [(1, 1), (2, 2)]
    assert all(r.fact.ended <= run.fact.started for r in repeats)


def test_taking_the_cluster_down_stops_what_runs_and_ends_the_supervisor(stage: Stage) -> None:
    stage.up(2)
    run = stage.ask("while True:\n    sleep(0.02)")
    stage.until(lambda: stage.store.run(run).fact.state is RunState.RUNNING)

    stage.store.wish_cluster(NAME, up=False, ranks=2)

    stage.until(lambda: not stage.supervisor.tick())
    assert stage.store.cluster_fact(NAME).state is ClusterState.DOWN
    assert stage.store.run(run).fact.state.ended


def test_what_a_predecessor_submitted_to_a_world_that_is_gone_is_reported_to_be_lost(
    stage: Stage,
) -> None:
    run = stage.ask("report(loss=1)")
    stage.store.put_run_fact(run, state=RunState.RUNNING, generation=7)

    stage.up(1)

    assert stage.store.run(run).fact.state is RunState.LOST


def test_a_successor_gives_no_world_the_number_of_one_that_was_starting(
    stage: Stage, store: Store
) -> None:
    begun: list[int] = []

    class Starting(ThreadCluster):
        """No world of it becomes ready."""

        def start_world(self, generation: int, world: World) -> None:
            begun.append(generation)

    stage.up(1)
    store.wish_cluster(NAME, up=True, ranks=2, oversubscribe=True)
    for later in (1, 2):  # what the one before has begun is not to be seen
        with Store(store.path) as own:
            successor = Supervisor(NAME, own, Starting(), read_clocks)
            successor.open()
            successor.tick()
            assert len(begun) == later

    assert begun == [2, 3]


def test_a_successor_knows_the_ranks_of_all_worlds_that_may_be_left(
    stage: Stage, store: Store
) -> None:
    seen: list[list[int]] = []

    class Taking(ThreadCluster):
        """Records which generations are known."""

        def open(self, known: Mapping[int, Sequence[RankFact]]) -> None:
            seen.append(sorted(known))

    stage.up(1)
    ranks = store.ranks(NAME, 1)
    store.put_ranks(NAME, [replace(rank, generation=4) for rank in ranks])

    Supervisor(NAME, stage.own, Taking(), read_clocks).open()

    assert seen == [[1, 4]]


def test_a_store_that_a_newer_workbench_upgraded_ends_the_supervisor(stage: Stage) -> None:
    stage.up(1)

    with sqlite3.connect(stage.store.path) as newer:
        newer.execute("PRAGMA user_version = 99")
    newer.close()

    with pytest.raises(StoreNewer, match="has version 99, newer than this workbench's"):
        stage.until(lambda: None)


def test_the_verdict_is_kept_before_anybody_sees_that_the_run_ended(stage) -> None:
    stage.up(2)
    parts = "{'step/compute': 0.1 + 0.1 * rank, 'step/communication': 0.11 - 0.1 * rank}"
    source = f"for i in range(1, 9):\n    report(loss=1 / i, **{parts})"

    run = stage.ask(source)
    seen = stage.until(
        lambda: stage.store.run(run).fact.state.ended and [stage.store.reports.conclusion(run)]
    )

    assert seen[0].slowest == 1
    assert seen[0].values["loss"] == 1 / 8
    assert seen[0].says[0].startswith("Straggler: rank 1 computes for 200 ms a step")


def test_a_run_does_not_fail_for_a_verdict_that_cannot_be_made(stage, monkeypatch) -> None:
    monkeypatch.setattr("workbench.analysis.conclusion.conclude", lambda *_: 1 / 0)
    stage.up(1)

    run = stage.ended(stage.ask("report(loss=1.0)"))

    assert run.fact.state is RunState.FINISHED
    assert stage.store.reports.conclusion(run.id) is None


def end_early(
    stage: Stage, monkeypatch: pytest.MonkeyPatch, *generations: int, is_lost: bool = False
) -> None:
    """Let these worlds end before they are ready."""
    observe, ended = stage.cluster.observe, set[int]()

    def instead() -> tuple[WorldFact, ...]:
        facts = [fact for fact in observe() if fact.generation not in ended]
        ended.update(generations)
        return tuple(
            replace(fact, state=WorldState.ENDED, ranks=(), reason="it failed", is_lost=is_lost)
            if fact.generation in generations
            else fact
            for fact in facts
        )

    monkeypatch.setattr(stage.cluster, "observe", instead)


def test_worlds_whose_host_was_lost_are_started_again(stage, monkeypatch) -> None:
    generations = range(1, MOST_FAILURES + 2)
    end_early(stage, monkeypatch, *generations, is_lost=True)

    stage.up(1)

    assert stage.store.cluster_fact(NAME).generation == generations.stop


def test_a_world_that_was_ready_ends_the_count_of_failures(stage, monkeypatch) -> None:
    end_early(stage, monkeypatch, 1, MOST_FAILURES - 1, MOST_FAILURES + 1)
    stage.up(1)
    ready = stage.store.cluster_fact(NAME)

    stage.ended(stage.ask("kill()"))

    stage.until(lambda: stage.store.cluster_fact(NAME).generation == MOST_FAILURES + 2)
    assert (ready.generation, ready.message) == (MOST_FAILURES, "")
