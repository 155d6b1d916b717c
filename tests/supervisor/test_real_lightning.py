"""An unmodified fit of Lightning with real ranks is killed and moved, and is the same."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path

import pytest

from tests.supervisor.real import NAME, Table
from tests.supervisor.test_real_trainer import (
    EPOCHS,
    SECONDS,
    STEPS,
    assert_same,
    ended,
    linger,
    moved,
    table,
)
from tests.waiting import until
from workbench.core.cluster.size import Size
from workbench.core.recovery.resumption import NONE
from workbench.core.run.model import Run
from workbench.core.run.run_options import REPLAY_VARIABLE
from workbench.requests.cluster import ask_size

pytest.importorskip("lightning", reason="lightning is no requirement")
pytestmark = [pytest.mark.torch, pytest.mark.mpi, pytest.mark.timeout(700)]
__all__ = ["table"]

SOURCE = (Path(__file__).parent / "programs" / "digits_lightning.py").read_text(encoding="utf-8")


def start(table: Table, folder: Path, **parameters: object) -> str:
    """Start the program with its parameters, on two ranks; it records in a folder."""
    ask_size(table.store, Size(2, None), cluster=NAME, oversubscribe=True)
    until(lambda: table.store.cluster_fact(NAME).ranks == 2, seconds=SECONDS)
    given = {"record": str(folder), "seed": 1, "epochs": EPOCHS, **parameters}
    # What an earlier cell has set up in PyTorch is not to be repeated before a move.
    replays = ((REPLAY_VARIABLE, "off"),)
    return table.start(SOURCE, parameters=tuple(given.items()), environment=replays)


@pytest.fixture(scope="module")
def whole(table: Table, tmp_path_factory: pytest.TempPathFactory) -> tuple[Run, Path]:
    """Return a fit that was never disturbed, and where it has recorded."""
    folder = tmp_path_factory.mktemp("whole")
    return ended(table, start(table, folder)), folder


def begun(table: Table, folder: Path) -> str:
    """Start the program, and return the run once it has a snapshot; it lingers in its steps."""
    linger(folder, 4.0)  # it trains on while further ranks load PyTorch
    run = start(table, folder)
    until(lambda: table.store.attempts.newest_snapshot(run) > 0, seconds=SECONDS)
    return run


def test_a_fit_is_killed_and_moves_on_the_same_curve(
    table: Table, whole: tuple[Run, Path], tmp_path: Path
) -> None:
    run = begun(table, tmp_path)
    fact = table.store.run(run).fact
    os.kill(table.store.ranks(NAME, fact.generation)[1].pid, signal.SIGKILL)

    def has_continued() -> bool:
        fact = table.store.run(run).fact
        return 0 < fact.resumed_at < fact.iteration

    until(has_continued, seconds=SECONDS)
    moved(table, run, 3)
    linger(tmp_path, 0.0)

    last = ended(table, run)

    assert (last.fact.attempt, last.fact.ranks) == (3, 3)
    assert_same(table, last, tmp_path, whole)


@pytest.mark.weekly
def test_a_fit_moves_to_four_three_one_and_four_ranks_on_the_same_curve(
    table: Table, whole: tuple[Run, Path], tmp_path: Path
) -> None:
    run = begun(table, tmp_path)
    for ranks in (4, 3, 1, 4):
        moved(table, run, ranks)
    linger(tmp_path, 0.0)

    last = ended(table, run)

    past = [one.ranks for one in table.store.attempts.past(run)]
    assert [*past, last.fact.ranks] == [2, 4, 3, 1, 4]
    assert_same(table, last, tmp_path, whole)


@pytest.mark.weekly
def test_a_fit_that_is_asked_in_a_validation_moves_after_it(
    table: Table, whole: tuple[Run, Path], tmp_path: Path
) -> None:
    run = start(table, tmp_path, wait_at=30)
    until((tmp_path / "waits").exists, seconds=SECONDS)
    ask_size(table.store, Size(3, None), cluster=NAME, oversubscribe=True)
    linger(tmp_path, 4.0)
    (tmp_path / "go").touch()
    moved(table, run, 3)
    linger(tmp_path, 0.0)

    last = ended(table, run)

    (before,) = table.store.attempts.past(run)
    assert before.snapshot >= 30
    assert_same(table, last, tmp_path, whole)


KILLS = {
    "in the first step": ["train", 0],
    "in a step": ["train", 20],
    "in the last step": ["train", STEPS - 1],
    "in a validation": ["validate", 30],
    "in the last validation": ["validate", STEPS],
    "in a checkpoint": ["save", 30],
    "in the last checkpoint": ["save", STEPS],
    "at the end of an epoch": ["end the epoch", 30],
    "at the end": ["end", STEPS],
    "after the fit": ["after", STEPS],
}


@pytest.mark.weekly
@pytest.mark.parametrize("rank", [0, 1])
@pytest.mark.parametrize("kill", KILLS.values(), ids=KILLS)
def test_a_rank_that_is_killed_costs_no_example(
    table: Table, whole: tuple[Run, Path], tmp_path: Path, kill: list[object], rank: int
) -> None:
    linger(tmp_path, 0.1)  # so that what it has done is known before

    run = ended(table, start(table, tmp_path, kill_at=json.dumps([rank, *kill])))

    assert run.fact.attempt == 2, run.fact.message
    assert_same(table, run, tmp_path, whole)


@pytest.mark.weekly
@pytest.mark.parametrize("rank", [0, 1])
def test_a_rank_that_is_killed_before_the_first_snapshot_costs_no_example(
    table: Table, whole: tuple[Run, Path], tmp_path: Path, rank: int
) -> None:
    linger(tmp_path, 4.0)
    run = start(table, tmp_path)
    until(lambda: table.store.run(run).fact.iteration > 0, seconds=SECONDS)

    assert table.store.attempts.newest_snapshot(run) == NONE
    generation = table.store.run(run).fact.generation
    os.kill(table.store.ranks(NAME, generation)[rank].pid, signal.SIGKILL)
    until(lambda: table.store.run(run).fact.attempt > 1, seconds=SECONDS)
    linger(tmp_path, 0.0)
    last = ended(table, run)

    assert last.fact.attempt == 2
    assert "It begins again at iteration 0" in last.fact.message
    assert_same(table, last, tmp_path, whole)
