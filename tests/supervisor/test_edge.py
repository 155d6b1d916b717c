"""A run begins on its new ranks before it leaves the old ones, so a failure costs nothing."""

from __future__ import annotations

import sqlite3

from tests.supervisor.conftest import NAME, Stage
from tests.supervisor.test_replay import at_snapshot, repeated, resize
from workbench.core.cluster.generation import OTHER_SIZE
from workbench.core.run.model import RunState

FAILS_ON_THREE = """
if size == 3:
    raise ValueError("no batch for 3")
for iteration in range(resume(), 60):
    report(loss=1)
    if iteration == 3:
        snapshot()
    sleep(0.02)
"""
STAYS = """
first = resume()
report(loss=1)
if not first:
    snapshot()
    sleep(60)
"""


def awaited(stage: Stage) -> int:
    """Turn until ranks wait at the edge; return their generation."""
    return stage.until(
        lambda: next((w.fact.generation for w in stage.supervisor._standings() if w.at_edge), 0)
    )


def test_a_cell_that_fails_on_the_new_size_costs_the_run_nothing(stage: Stage) -> None:
    stage.up(2)
    run = at_snapshot(stage, FAILS_ON_THREE)
    resize(stage, 3)

    stage.until(lambda: "did not reach its training" in stage.store.run(run).fact.message)
    message = stage.store.run(run).fact.message
    fact = stage.ended(run).fact

    assert "no batch for 3" in message
    assert (fact.state, fact.attempt, fact.iteration) == (RunState.FINISHED, 1, 60)
    stage.until(lambda: stage.store.cluster_fact(NAME).ranks == 3)


def test_a_cell_that_fails_on_one_size_moves_to_another(stage: Stage) -> None:
    stage.up(2)
    run = at_snapshot(stage, FAILS_ON_THREE.replace("60", "400"))
    resize(stage, 3)
    stage.until(lambda: "did not reach its training" in stage.store.run(run).fact.message)
    resize(stage, 1)

    stage.until(lambda: stage.store.run(run).fact.resumed_at >= 0)

    assert stage.store.run(run).fact.ranks == 1


def test_a_run_that_is_lost_while_its_next_ranks_wait_continues_on_them(stage: Stage) -> None:
    stage.up(2)
    run = at_snapshot(stage, STAYS)
    resize(stage, 3)
    generation = awaited(stage)
    stage.cluster.worlds[1].die(0)

    fact = stage.ended(run).fact

    assert (fact.state, fact.attempt, fact.generation) == (RunState.FINISHED, 2, generation)
    assert len(repeated(stage)) == 1


def test_ranks_that_wait_for_a_run_that_was_stopped_end(stage: Stage) -> None:
    stage.up(2)
    run = at_snapshot(stage, STAYS)
    resize(stage, 3)
    awaited(stage)
    stage.store.wish_stop(run)

    fact = stage.ended(run).fact
    after = stage.ended(stage.ask("print(size)"))

    assert (fact.state, fact.attempt) == (RunState.STOPPED, 1)
    assert {one.text for one in stage.store.reports.output(after.id)} == {"3\n"}


def test_another_size_is_reached_while_ranks_wait_at_the_edge(stage: Stage) -> None:
    stage.up(2)
    run = at_snapshot(stage, STAYS)
    resize(stage, 3)
    awaited(stage)
    resize(stage, 4)

    stage.until(lambda: awaited(stage) == 3)
    stage.cluster.worlds[1].die(0)

    assert stage.ended(run).fact.ranks == 4


def test_another_supervisor_continues_the_run_on_them(stage: Stage) -> None:
    stage.up(2)
    run = at_snapshot(stage, STAYS)
    resize(stage, 3)
    generation = awaited(stage)
    stage.supervisor = type(stage.supervisor)(NAME, stage.own, stage.cluster, stage._clocks)
    stage.supervisor.open()
    awaited(stage)
    stage.cluster.worlds[1].die(0)

    fact = stage.ended(run).fact

    assert (fact.state, fact.generation) == (RunState.FINISHED, generation)


def test_ranks_that_were_lost_at_the_edge_are_no_reason_to_stay(stage: Stage) -> None:
    """A node that is taken back just then ends its world; its replacement is another chance."""
    stage.up(2)
    run = at_snapshot(stage, STAYS)
    resize(stage, 3)
    generation = awaited(stage)
    stage.supervisor._end_world(generation, OTHER_SIZE)

    stage.until(lambda: awaited(stage) > generation)
    stage.cluster.worlds[1].die(0)

    assert stage.ended(run).fact.ranks == 3
    assert [one.fact.state for one in repeated(stage)] == [RunState.LOST, RunState.FINISHED]


def test_ranks_come_to_the_edge_though_every_snapshot_was_damaged(stage: Stage) -> None:
    """They would train by themselves otherwise, and the run would wait for their end."""
    stage.up(2)
    run = at_snapshot(stage, STAYS)
    with sqlite3.connect(stage.own.path) as store:
        store.execute("DELETE FROM events WHERE kind = 'SnapshotSaved'")
    resize(stage, 3)

    generation = awaited(stage)

    ranks = stage.cluster.worlds[generation].running.values()
    assert all(rank._assignment.snapshots and rank._assignment.begins_again for rank in ranks)
    stage.store.wish_stop(run)
    stage.ended(run)
