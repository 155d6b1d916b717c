"""A resize waits for the step, the end of the epoch or the end of the run, as it was asked."""

from __future__ import annotations

import math

from tests.supervisor.conftest import NAME, Stage
from tests.supervisor.test_edge import awaited
from tests.supervisor.test_replay import at_snapshot
from workbench.core.cluster.model import ResizeAt
from workbench.core.run.model import RunState

EPOCH = 20  # steps
TRAINS = f"""
for iteration in range(resume(), 80):
    report(loss=1, epoch=(iteration + 1) / {EPOCH})
    if iteration == 3:
        snapshot()
    sleep(0.02)
"""
WITHOUT_EPOCHS = TRAINS.replace(f", epoch=(iteration + 1) / {EPOCH}", "")
ONE_LONG_EPOCH = TRAINS.replace(f"/ {EPOCH}", "/ 4000")


def resize(stage: Stage, ranks: int, at: ResizeAt) -> None:
    stage.store.wish_cluster(NAME, up=True, ranks=ranks, oversubscribe=True, resize_at=at)


def message(stage: Stage, run: str) -> str:
    return stage.store.run(run).fact.message


def test_a_run_moves_at_the_end_of_its_epoch(stage: Stage) -> None:
    stage.up(2)
    run = at_snapshot(stage, TRAINS)
    resize(stage, 3, ResizeAt.EPOCH)

    fact = stage.ended(run).fact

    assert (fact.state, fact.ranks, fact.attempt) == (RunState.FINISHED, 3, 2)
    assert math.isclose(fact.resumed_at % EPOCH, 0.0)


def test_a_run_is_resized_after_its_end(stage: Stage) -> None:
    stage.up(2)
    run = at_snapshot(stage, TRAINS)
    resize(stage, 3, ResizeAt.END)

    stage.until(lambda: "The change to 3 ranks waits until it has ended" in message(stage, run))
    fact = stage.ended(run).fact

    assert (fact.state, fact.ranks, fact.attempt) == (RunState.FINISHED, 2, 1)
    stage.until(lambda: stage.store.cluster_fact(NAME).ranks == 3)


def test_a_resize_that_waits_is_cancelled_by_the_present_size(stage: Stage) -> None:
    stage.up(2)
    run = at_snapshot(stage, ONE_LONG_EPOCH)
    resize(stage, 3, ResizeAt.EPOCH)
    awaited(stage)
    stage.until(lambda: "moves to 3 ranks at the end of this epoch" in message(stage, run))
    resize(stage, 2, ResizeAt.STEP)

    fact = stage.ended(run).fact

    assert (fact.ranks, fact.attempt, fact.message) == (2, 1, "")


def test_a_resize_that_waits_is_replaced_by_a_later_one(stage: Stage) -> None:
    stage.up(2)
    run = at_snapshot(stage, TRAINS)
    resize(stage, 3, ResizeAt.END)
    stage.until(lambda: "waits until it has ended" in message(stage, run))
    resize(stage, 4, ResizeAt.STEP)

    fact = stage.ended(run).fact

    assert (fact.ranks, fact.attempt) == (4, 2)


def test_a_run_that_reports_no_epochs_is_waited_for(stage: Stage) -> None:
    stage.up(2)
    run = at_snapshot(stage, WITHOUT_EPOCHS)
    resize(stage, 3, ResizeAt.EPOCH)

    stage.until(lambda: "It reports no epochs" in message(stage, run))
    fact = stage.ended(run).fact

    assert (fact.ranks, fact.attempt) == (2, 1)


def test_a_run_that_is_to_leave_at_the_end_of_its_epoch_is_stopped_at_once(stage: Stage) -> None:
    stage.up(2)
    run = at_snapshot(stage, ONE_LONG_EPOCH.replace("4000", "4000 + 0.95"))
    resize(stage, 3, ResizeAt.EPOCH)
    stage.until(lambda: "after this epoch" in message(stage, run))
    stage.store.wish_stop(run)

    fact = stage.ended(run).fact

    assert (fact.state, fact.attempt) == (RunState.STOPPED, 1)


def test_a_lost_rank_moves_the_run_whatever_was_asked(stage: Stage) -> None:
    stage.up(2)
    run = at_snapshot(stage, TRAINS)
    resize(stage, 3, ResizeAt.END)
    stage.until(lambda: "waits until it has ended" in message(stage, run))
    stage.cluster.worlds[1].die(0)

    fact = stage.ended(run).fact

    assert (fact.state, fact.ranks, fact.attempt) == (RunState.FINISHED, 3, 2)
