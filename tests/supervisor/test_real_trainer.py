"""An unmodified Trainer of Hugging Face with real ranks is killed and moved, and is the same."""

from __future__ import annotations

import json
import os
import signal
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path
from statistics import fmean
from typing import Any

import pytest

from tests.chaos.examples import visits
from tests.engine.trainings import once
from tests.supervisor.real import NAME, Table, real_table
from tests.waiting import until
from workbench.core.cluster.size import Size
from workbench.core.recovery.resumption import NONE
from workbench.core.run.model import Run, RunState
from workbench.core.run.run_options import REPLAY_VARIABLE
from workbench.requests.cluster import ask_size

pytest.importorskip("torch", reason="torch is an extra that the tests do without")
pytest.importorskip("transformers", reason="transformers is no requirement")
pytestmark = [pytest.mark.torch, pytest.mark.mpi, pytest.mark.timeout(700)]

SOURCE = (Path(__file__).parent / "programs" / "digits_trainer.py").read_text(encoding="utf-8")
EXAMPLES, EPOCHS, STEPS = 960, 3, 45
SECONDS = 240.0  # to load PyTorch on each rank takes long on a busy machine


@pytest.fixture(scope="module")
def table() -> Iterator[Table]:
    with real_table() as made:
        yield made


@pytest.fixture(scope="module")
def whole(table: Table, tmp_path_factory: pytest.TempPathFactory) -> tuple[Run, Path]:
    """Return a training that was never disturbed, and where it has recorded."""
    folder = tmp_path_factory.mktemp("whole")
    return ended(table, start(table, folder)), folder


def start(table: Table, folder: Path, **parameters: str) -> str:
    """Start the program with its parameters, on two ranks; it records in a folder."""
    ask_size(table.store, Size(2, None), cluster=NAME, oversubscribe=True)
    until(lambda: table.store.cluster_fact(NAME).ranks == 2, seconds=SECONDS)
    own = json.dumps({"save_strategy": "steps", "save_steps": 10})
    given = {"record": str(folder), "seed": 1, "epochs": EPOCHS, "further": own, **parameters}
    # What an earlier cell has set up in PyTorch is not to be repeated before a move.
    replays = ((REPLAY_VARIABLE, "off"),)
    return table.start(SOURCE, parameters=tuple(given.items()), environment=replays)


def linger(folder: Path, seconds: float) -> None:
    """Have each step take so much longer."""
    (part := folder / "part").write_text(str(seconds))
    part.rename(folder / "pause")


def curve(table: Table, run: str, name: str) -> dict[int, dict[int, float]]:
    """Return the values of each iteration by rank; each is drawn once.

    The program evaluates its model once more after the last step.
    """
    points = [p for p in table.store.reports.points(run) if p.name == name]
    times = Counter((p.rank, p.iteration) for p in points)
    twice = {at for (_, at), many in times.items() if many > 1}
    assert twice <= ({STEPS} if name != "loss" else set()), name
    assert max(times.values(), default=0) <= 2, name
    found = defaultdict[int, dict[int, float]](dict)
    for point in points:
        found[point.iteration][point.rank] = point.value
    return found


def ranks_at(table: Table, run: Run, iteration: int) -> int:
    """Return the number of ranks of the attempt that has done an iteration for good."""
    attempts = [*table.store.attempts.past(run.id), run.fact]
    return [one.ranks for one in attempts if max(one.resumed_at, 0) < iteration][-1]


def assert_near(found: dict[int, float], wanted: dict[int, float], ranks: int) -> None:
    """Assert that ranks have the same values, or the same mean on another number of ranks."""
    if ranks == len(wanted):  # a rank that is killed takes none with it
        assert found == pytest.approx(wanted, rel=1e-4)
    else:
        assert fmean(found.values()) == pytest.approx(fmean(wanted.values()), rel=1e-4)


def assert_same(table: Table, run: Run, folder: Path, whole: tuple[Run, Path]) -> None:
    """Assert that a run is the one that was never disturbed."""
    assert run.fact.state is RunState.FINISHED, run.fact.message
    for name in ("loss", "eval_loss", "eval_accuracy"):
        wanted, found = (curve(table, one.id, name) for one in (whole[0], run))
        assert sorted(found) == sorted(wanted), name
        for iteration, values in found.items():
            assert_near(values, wanted[iteration], ranks_at(table, run, iteration))
    assert sorted(curve(table, run.id, "loss")) == [*range(1, STEPS + 1)]
    assert visits(folder) == once(EPOCHS, EXAMPLES)
    finals = [json.loads((one / "final.json").read_text()) for one in (whole[1], folder)]
    assert finals[1] == pytest.approx(finals[0], rel=1e-4)


def ended(table: Table, run: str) -> Run:
    """Return a run once it has ended; to load PyTorch on each rank takes long."""
    until(lambda: table.store.run(run).fact.state.ended, seconds=SECONDS)
    return table.store.run(run)


def moved(table: Table, run: str, ranks: int) -> None:
    """Have a run move to so many ranks, and wait until it has trained on them."""
    ask_size(table.store, Size(ranks, None), cluster=NAME, oversubscribe=True)

    def has_moved() -> bool:
        fact = table.store.run(run).fact
        assert not fact.state.ended, fact.message
        return fact.ranks == ranks and fact.iteration > max(fact.resumed_at, 0)

    until(has_moved, seconds=SECONDS)


def test_a_trainer_is_killed_and_moves_on_the_same_curve(
    table: Table, whole: tuple[Run, Path], tmp_path: Path
) -> None:
    linger(tmp_path, 4.0)  # it trains on while a third rank loads PyTorch
    run = start(table, tmp_path)
    until(lambda: table.store.attempts.newest_snapshot(run) > 0, seconds=SECONDS)
    fact = table.store.run(run).fact
    os.kill(table.store.ranks(NAME, fact.generation)[1].pid, signal.SIGKILL)
    until(lambda: table.store.run(run).fact.iteration > fact.iteration, seconds=SECONDS)
    moved(table, run, 3)
    linger(tmp_path, 0.0)

    last = ended(table, run)

    assert (last.fact.attempt, last.fact.ranks) == (3, 3)
    assert_same(table, last, tmp_path, whole)


KILLS = {
    "in the first step": ["train", 0],
    "in a step": ["train", 20],
    "in the last step": ["train", STEPS - 1],
    "in a checkpoint": ["save", 20],
    "after a checkpoint": ["on_save", 20],
    "in an evaluation": ["evaluate", 30],
    "in the last evaluation": ["evaluate", STEPS],
    "in the last checkpoint": ["save", STEPS],
    "after the training": ["after", STEPS],
}


@pytest.mark.weekly
@pytest.mark.parametrize("rank", [0, 1])
@pytest.mark.parametrize("kill", KILLS.values(), ids=KILLS)
def test_a_rank_that_is_killed_costs_no_example(
    table: Table, whole: tuple[Run, Path], tmp_path: Path, kill: list[Any], rank: int
) -> None:
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
    assert "It begins again at iteration 0" in str(last.fact.message)
    assert_same(table, last, tmp_path, whole)


@pytest.mark.weekly
def test_a_trainer_moves_on_the_same_curve(
    table: Table, whole: tuple[Run, Path], tmp_path: Path
) -> None:
    linger(tmp_path, 8.0)
    run = start(table, tmp_path)
    until(lambda: table.store.run(run).fact.iteration > 0, seconds=SECONDS)
    for ranks in (4, 3, 1, 4):
        moved(table, run, ranks)
    linger(tmp_path, 0.0)

    last = ended(table, run)

    path = [one.ranks for one in table.store.attempts.past(run)]
    assert [*path, last.fact.ranks] == [2, 4, 3, 1, 4]
    assert_same(table, last, tmp_path, whole)
