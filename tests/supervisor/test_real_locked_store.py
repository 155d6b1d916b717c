"""The store is out of reach for a minute while real ranks train, and nothing is lost by that."""

from __future__ import annotations

import contextlib
import sqlite3
import time
from pathlib import Path

import pytest

from tests.supervisor.real import NAME, real_table
from tests.waiting import until
from workbench.core.run.model import RunState
from workbench.requests.run import ask_stop

pytestmark = [pytest.mark.mpi, pytest.mark.weekly, pytest.mark.timeout(300)]
TRAINING = Path(__file__).parent / "programs" / "slow_training.py"
AWAY_SECONDS = 60.0
FEWEST = 100  # iterations in that time, of some 1,000 on idle cores


def test_a_training_outlives_a_store_that_is_locked_for_a_minute() -> None:
    with real_table() as table:
        source = TRAINING.read_text(encoding="utf-8")
        run = table.start(source, parameters=(("epochs", 10_000),))
        until(lambda: table.store.run(run).fact.iteration >= 12)
        world = table.store.ranks(NAME, table.store.run(run).fact.generation)

        with contextlib.closing(sqlite3.connect(table.store.path, timeout=30.0)) as other:
            other.execute("BEGIN IMMEDIATE")
            before = table.store.run(run).fact
            time.sleep(AWAY_SECONDS)
            assert table.store.run(run).fact.iteration == before.iteration
            other.rollback()

        until(lambda: table.store.run(run).fact.iteration > before.iteration + FEWEST)
        ask_stop(table.store, run, NAME)
        ended = table.ended(run).fact
        points = table.store.reports.points(run)
        drawn = [p.iteration for p in points if (p.name, p.rank) == ("main/loss", 0)]
        assert (ended.state, ended.attempt) == (RunState.STOPPED, 1), ended.message
        assert table.store.ranks(NAME, ended.generation) == world
        assert drawn == [*range(1, ended.stopped_at + 1)]
