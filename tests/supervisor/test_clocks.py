"""A wall clock that is set forward or back while a supervisor runs."""

from __future__ import annotations

import time
from dataclasses import replace

import pytest

from tests.supervisor.conftest import NAME, Stage
from workbench.core.cluster.model import ClusterState
from workbench.core.fleet.model import FleetWish
from workbench.core.run.model import RunState
from workbench.supervisor.loop import EXPIRES

HOUR = 3600.0


@pytest.mark.parametrize("shift", [-HOUR, 2 * HOUR], ids=["back", "forth"])
def test_the_loop_continues_looking_when_the_clock_is_set(stage: Stage, shift: float) -> None:
    stage.up(2)
    looks: list[float] = []
    observe = stage.cluster.observe
    stage.cluster.observe = lambda: looks.append(0.0) or observe()

    stage.shift = shift

    stage.until(lambda: len(looks) > 3)


@pytest.mark.parametrize("shift", [-HOUR, 2 * HOUR], ids=["back", "forth"])
def test_a_killed_rank_is_seen_after_the_clock_was_set(stage: Stage, shift: float) -> None:
    stage.up(2)
    run = stage.ask("sleep(0.5)\nif rank == 1:\n    kill()\nbarrier()")
    stage.until(lambda: stage.store.run(run).fact.state is RunState.RUNNING)

    stage.shift = shift

    assert stage.ended(run).fact.failed_rank == 1
    assert stage.ended(stage.ask("report(loss=1)")).fact.generation == 2


def test_a_stop_is_not_cut_short_nor_put_off_by_a_clock_that_is_set(stage: Stage) -> None:
    stage.up(1)
    run = stage.ask("while True:\n    sleep(0.02)", grace=0.3)
    stage.until(lambda: stage.store.run(run).fact.state is RunState.RUNNING)
    stage.store.wish_stop(run)
    stage.until(lambda: stage.store.run(run).fact.state is RunState.STOPPING)

    stage.shift = -HOUR

    assert stage.ended(run).fact.state is RunState.STOPPED


def test_a_clock_that_is_set_back_puts_no_limit_off(stage: Stage) -> None:
    stage.up(1)
    run = stage.ask("while True:\n    report(loss=1)\n    sleep(0.02)", limit=1.0)
    stage.until(lambda: run in stage.supervisor._deadlines.all)

    stage.shift = -HOUR

    assert stage.ended(run).fact.message.endswith(". It reached its wall-clock limit of 1 s.")


def test_a_clock_that_jumps_forward_ends_no_run_at_once(stage: Stage) -> None:
    stage.up(1)
    run = stage.ask("for _ in range(60):\n    report(loss=1)\n    sleep(0.05)", limit=60.0)
    stage.until(lambda: run in stage.supervisor._deadlines.all)

    stage.shift = HOUR

    assert stage.ended(run).fact.state is RunState.FINISHED


def test_a_clock_that_is_set_back_lets_no_cluster_live_longer(stage: Stage) -> None:
    stage.up(1)
    wish = stage.store.cluster_wish(NAME)
    assert wish is not None
    fleet = replace(wish.fleet, expires=time.time() + 1.5)
    stage.store.wish_cluster(NAME, up=True, ranks=1, fleet=fleet)
    stage.until(lambda: EXPIRES in stage.supervisor._deadlines.all)

    stage.shift = -HOUR

    stage.until(lambda: not stage.supervisor.tick())
    assert stage.store.cluster_fact(NAME).state is ClusterState.DOWN


def test_a_clock_that_jumps_forward_deletes_no_cluster_at_once(stage: Stage) -> None:
    stage.up(1)
    fleet = FleetWish(expires=time.time() + 60.0)
    stage.store.wish_cluster(NAME, up=True, ranks=1, fleet=fleet)
    stage.until(lambda: EXPIRES in stage.supervisor._deadlines.all)

    stage.shift = HOUR

    assert stage.ended(stage.ask("report(loss=1)")).fact.state is RunState.FINISHED
    assert any(wish.up for wish in stage.store.clusters())
