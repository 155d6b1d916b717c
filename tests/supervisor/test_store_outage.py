"""What the store does not take, or give, at the moment when it is needed is done later."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.supervisor.conftest import NAME, Stage
from workbench.core.run.model import RunState
from workbench.errors import StoreUnavailable
from workbench.supervisor.store_outage import StoreOutage

WAYS = ("one", "all", "rows", "some", "transaction")


@contextmanager
def away(part: object, *ways: str) -> Iterator[None]:
    """Let a part of the store not answer in some ways; a whole one in none."""

    def refuse(*_: object, **__: object) -> Any:
        raise StoreUnavailable("The store is locked", "wait.")

    for name in ways or WAYS:
        setattr(part, name, refuse)
    try:
        yield
    finally:
        for name in ways or WAYS:
            delattr(part, name)


def test_a_world_that_ends_while_the_store_is_away_ends_its_run(stage: Stage) -> None:
    stage.up(2)
    run = stage.ask("report(loss=1)\nwhile True:\n    sleep(0.01)")
    stage.until(lambda: stage.store.reports.points(run))
    world = stage.cluster.worlds[1]

    with away(stage.own):
        stage.cluster.end_world(1)
        while 1 in stage.cluster.worlds:
            stage.supervisor.tick()

    assert world.has_ended
    assert stage.ended(run).fact.state is RunState.LOST


def test_a_set_up_cell_runs_though_the_store_was_away_when_it_was_due(stage: Stage) -> None:
    stage.store.put_setup(NAME, "first", "print('set up')")
    stage.store.wish_cluster(NAME, up=True, ranks=1, oversubscribe=True)
    stage.supervisor.open()

    with away(stage.own, "wish_run"):
        stage.until(lambda: stage.cluster.worlds[1].seen)
        for _ in range(3):
            stage.supervisor.tick()
    run = stage.ended(stage.ask("print('run')"))

    setups = [one for one in stage.store.runs(setups=True) if one.wish.kind == "setup"]
    assert [one.fact.state for one in setups] == [RunState.FINISHED]
    assert setups[0].fact.ended <= run.fact.started


@pytest.mark.parametrize("way", ["put_run_fact", "run"])
def test_a_set_up_cell_is_queued_once_though_it_could_not_begin(stage: Stage, way: str) -> None:
    stage.store.put_setup(NAME, "first", "print('set up')")
    stage.store.wish_cluster(NAME, up=True, ranks=1, oversubscribe=True)
    stage.supervisor.open()

    with away(stage.own, way):
        stage.until(lambda: stage.cluster.worlds[1].seen)
        for _ in range(3):
            stage.supervisor.tick()
    stage.ended(stage.ask("print('run')"))

    setups = [one for one in stage.store.runs(setups=True) if one.wish.kind == "setup"]
    assert [one.fact.state for one in setups] == [RunState.FINISHED]


@pytest.mark.parametrize("part", ["attempts", "reports", "events"])
def test_a_run_begins_though_the_store_was_away_when_it_was_submitted(
    stage: Stage, part: str
) -> None:
    stage.up(1)
    ways = {"attempts": "past", "reports": "endings", "events": "newest"}
    run = stage.ask("report(loss=1)")

    with away(getattr(stage.own, part), ways[part]):
        for _ in range(3):
            stage.supervisor.tick()

    assert stage.ended(run).fact.state is RunState.FINISHED


def test_other_errors_are_reported_once_and_delay_no_other_write(tmp_path: Path) -> None:
    outage, written = StoreOutage(tmp_path / "store.sqlite3"), []

    def fail() -> None:
        raise ValueError("never")

    with pytest.raises(ValueError, match="never"):
        outage.write("bad", fail)
    outage.write("good", lambda: written.append(1))

    assert written == [1]
