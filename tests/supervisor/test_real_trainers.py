"""Unmodified trainings of libraries with real ranks are killed and moved, and are the same."""

from __future__ import annotations

import json
import os
import signal
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from statistics import fmean

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
pytestmark = [pytest.mark.torch, pytest.mark.mpi, pytest.mark.timeout(700)]

PROGRAMS = Path(__file__).parent / "programs"
EXAMPLES, EPOCHS, STEPS = 960, 3, 45
SECONDS = 240.0  # to load PyTorch on each rank takes long on a busy machine
KILLS = {
    "transformers": {
        "in the first step": ["train", 0],
        "in a step": ["train", 20],
        "in the last step": ["train", STEPS - 1],
        "in a checkpoint": ["save", 20],
        "after a checkpoint": ["on_save", 20],
        "in an evaluation": ["evaluate", 30],
        "in the last evaluation": ["evaluate", STEPS],
        "in the last checkpoint": ["save", STEPS],
        "after the training": ["after", STEPS],
    },
    "lightning": {
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
    },
}
"""What the program of each library does, and in which step, when a rank is killed."""


@dataclass(frozen=True)
class Training:
    """A library's program, and what it is given beside what each is given."""

    table: Table
    program: str
    own: dict[str, str] = field(default_factory=dict)

    def start(self, folder: Path, **parameters: object) -> str:
        """Start the program with its parameters, on two ranks; it records in a folder."""
        self.resize(2)
        until(lambda: self.table.store.cluster_fact(NAME).ranks == 2, seconds=SECONDS)
        common = {"record": str(folder), "seed": 1, "epochs": EPOCHS}
        given = {**common, **self.own, **parameters}
        # What an earlier cell has set up in PyTorch is not to be repeated before a move.
        replays = ((REPLAY_VARIABLE, "off"),)
        source = (PROGRAMS / self.program).read_text(encoding="utf-8")
        return self.table.start(source, parameters=tuple(given.items()), environment=replays)

    def resize(self, ranks: int) -> None:
        """Ask for so many ranks."""
        ask_size(self.table.store, Size(ranks, None), cluster=NAME, oversubscribe=True)

    def end(self, run: str) -> Run:
        """Return a run once it has ended."""
        return self.table.ended(run, SECONDS)

    def move(self, run: str, ranks: int) -> None:
        """Have a run move to so many ranks, and wait until it has trained on them."""
        self.resize(ranks)

        def has_moved() -> bool:
            fact = self.table.store.run(run).fact
            assert not fact.state.ended, fact.message
            return fact.ranks == ranks and fact.iteration > max(fact.resumed_at, 0)

        until(has_moved, seconds=SECONDS)

    def kill(self, run: str, rank: int) -> None:
        """Kill a rank, and wait until the run has continued on others."""
        fact = self.table.store.run(run).fact
        os.kill(self.table.store.ranks(NAME, fact.generation)[rank].pid, signal.SIGKILL)

        def has_continued() -> bool:
            now = self.table.store.run(run).fact
            assert not now.state.ended, now.message
            return 0 < now.resumed_at < now.iteration

        until(has_continued, seconds=SECONDS)

    def curve(self, run: str, name: str) -> dict[int, dict[int, float]]:
        """Return the values of each iteration by rank; each is drawn once.

        The program may evaluate its model once more after the last step.
        """
        points = [p for p in self.table.store.reports.points(run) if p.name == name]
        times = Counter((p.rank, p.iteration) for p in points)
        twice = {at for (_, at), many in times.items() if many > 1}
        assert twice <= ({STEPS} if name != "loss" else set()), name
        assert max(times.values(), default=0) <= 2, name
        found = defaultdict[int, dict[int, float]](dict)
        for point in points:
            found[point.iteration][point.rank] = point.value
        return found

    def ranks_at(self, run: Run, iteration: int) -> int:
        """Return the number of ranks of the attempt that has done an iteration for good."""
        attempts = [*self.table.store.attempts.past(run.id), run.fact]
        return [one.ranks for one in attempts if max(one.resumed_at, 0) < iteration][-1]

    def assert_same(self, run: Run, folder: Path, whole: tuple[Run, Path]) -> None:
        """Assert that a run is the one that was never disturbed."""
        assert run.fact.state is RunState.FINISHED, run.fact.message
        for name in ("loss", "eval_loss", "eval_accuracy"):
            wanted, found = (self.curve(one.id, name) for one in (whole[0], run))
            assert sorted(found) == sorted(wanted), name
            for iteration, values in found.items():
                assert_near(values, wanted[iteration], self.ranks_at(run, iteration))
        assert sorted(self.curve(run.id, "loss")) == [*range(1, STEPS + 1)]
        assert visits(folder) == once(EPOCHS, EXAMPLES)
        finals = [json.loads((one / "final.json").read_text()) for one in (whole[1], folder)]
        assert finals[1] == pytest.approx(finals[0], rel=1e-4)


def assert_near(found: dict[int, float], wanted: dict[int, float], ranks: int) -> None:
    """Assert that ranks have the same values, or the same mean on another number of ranks."""
    if ranks == len(wanted):  # a rank that is killed takes none with it
        assert found == pytest.approx(wanted, rel=1e-4)
    else:
        assert fmean(found.values()) == pytest.approx(fmean(wanted.values()), rel=1e-4)


def linger(folder: Path, seconds: float) -> None:
    """Have each step take so much longer."""
    (part := folder / "part").write_text(str(seconds))
    part.rename(folder / "pause")


@pytest.fixture(scope="module", params=[*KILLS])
def library(request: pytest.FixtureRequest) -> str:
    pytest.importorskip(request.param, reason=f"{request.param} is no requirement")
    return request.param


@pytest.fixture(scope="module")
def table(library: str) -> Iterator[Table]:
    """Return a cluster of the library's own."""
    with real_table() as made:
        yield made


@pytest.fixture(scope="module")
def training(table: Table, library: str) -> Training:
    if library == "lightning":
        return Training(table, "digits_lightning.py")
    further = json.dumps({"save_strategy": "steps", "save_steps": 10})
    return Training(table, "digits_trainer.py", {"further": further})


@pytest.fixture(scope="module")
def whole(training: Training, tmp_path_factory: pytest.TempPathFactory) -> tuple[Run, Path]:
    """Return a training that was never disturbed, and where it has recorded."""
    folder = tmp_path_factory.mktemp("whole")
    return training.end(training.start(folder)), folder


@pytest.fixture
def begun(training: Training, tmp_path: Path) -> str:
    """Return a run that has a snapshot; it trains on while further ranks load PyTorch."""
    linger(tmp_path, 4.0)
    run = training.start(tmp_path)
    newest = training.table.store.attempts.newest_snapshot
    until(lambda: newest(run) > 0, seconds=SECONDS)
    return run


def test_it_is_killed_and_moves_on_the_same_curve(
    training: Training, whole: tuple[Run, Path], begun: str, tmp_path: Path
) -> None:
    training.kill(begun, 1)
    training.move(begun, 3)
    linger(tmp_path, 0.0)

    last = training.end(begun)

    assert (last.fact.attempt, last.fact.ranks) == (3, 3)
    training.assert_same(last, tmp_path, whole)


@pytest.mark.weekly
def test_it_moves_to_four_three_one_and_four_ranks_on_the_same_curve(
    training: Training, whole: tuple[Run, Path], begun: str, tmp_path: Path
) -> None:
    linger(tmp_path, 8.0)
    for ranks in (4, 3, 1, 4):
        training.move(begun, ranks)
    linger(tmp_path, 0.0)

    last = training.end(begun)

    past = [one.ranks for one in training.table.store.attempts.past(begun)]
    assert [*past, last.fact.ranks] == [2, 4, 3, 1, 4]
    training.assert_same(last, tmp_path, whole)


@pytest.mark.weekly
@pytest.mark.parametrize("rank", [0, 1])
@pytest.mark.parametrize(
    ("library", "kill"),
    [
        pytest.param(library, kill, id=f"{library} {when}")
        for library, kills in KILLS.items()
        for when, kill in kills.items()
    ],
    indirect=["library"],
    scope="module",
)
def test_a_rank_that_is_killed_costs_no_example(
    training: Training, whole: tuple[Run, Path], tmp_path: Path, kill: list[object], rank: int
) -> None:
    linger(tmp_path, 0.1)  # so that what it has done is known before

    run = training.end(training.start(tmp_path, kill_at=json.dumps([rank, *kill])))

    assert run.fact.attempt == 2, run.fact.message
    training.assert_same(run, tmp_path, whole)


@pytest.mark.weekly
@pytest.mark.parametrize("rank", [0, 1])
def test_a_rank_that_is_killed_before_the_first_snapshot_costs_no_example(
    training: Training, whole: tuple[Run, Path], tmp_path: Path, rank: int
) -> None:
    linger(tmp_path, 4.0)
    run, store = training.start(tmp_path), training.table.store
    until(lambda: store.run(run).fact.iteration > 0, seconds=SECONDS)

    assert store.attempts.newest_snapshot(run) == NONE
    os.kill(store.ranks(NAME, store.run(run).fact.generation)[rank].pid, signal.SIGKILL)
    until(lambda: store.run(run).fact.attempt > 1, seconds=SECONDS)
    linger(tmp_path, 0.0)
    last = training.end(run)

    assert last.fact.attempt == 2
    assert "It begins again at iteration 0" in last.fact.message
    training.assert_same(last, tmp_path, whole)


@pytest.mark.weekly
@pytest.mark.parametrize("library", ["lightning"], indirect=True, scope="module")
def test_a_fit_that_is_asked_in_a_validation_moves_after_it(
    training: Training, whole: tuple[Run, Path], tmp_path: Path
) -> None:
    run = training.start(tmp_path, wait_at=30)
    until((tmp_path / "waits").exists, seconds=SECONDS)
    training.resize(3)
    linger(tmp_path, 4.0)
    (tmp_path / "go").touch()
    training.move(run, 3)
    linger(tmp_path, 0.0)

    last = training.end(run)

    (before,) = training.table.store.attempts.past(run)
    assert before.snapshot >= 30
    training.assert_same(last, tmp_path, whole)
