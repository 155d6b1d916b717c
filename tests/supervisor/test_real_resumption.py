"""Chainer's trainings with real ranks are stopped, killed and moved, and continue."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.supervisor.real import NAME, Table, real_table
from tests.waiting import until
from workbench.core.cluster.model import ResizeAt
from workbench.core.cluster.size import Size
from workbench.core.recovery.resumption import NONE
from workbench.core.run.model import Run, RunKind, RunState
from workbench.core.run.run_options import RunOptions
from workbench.requests.cluster import ask_size
from workbench.requests.resume import ask_resume
from workbench.requests.run import ask_run, ask_stop
from workbench.store.paths import snapshot_directory
from workbench.view.tables.visited_examples import read_visits, visits_sentence

pytestmark = [
    pytest.mark.mpi, pytest.mark.contract, pytest.mark.timeout(180),
]  # fmt: skip

PROGRAMS = Path(__file__).parent / "programs"
TRAINING = (PROGRAMS / "slow_training.py").read_text(encoding="utf-8")
LOOP = (PROGRAMS / "slow_loop.py").read_text(encoding="utf-8")
CUT_OFF = (PROGRAMS / "cut_off.py").read_text(encoding="utf-8")
ITERATIONS = 90  # on two ranks
EXAMPLES, BATCH = 120, 4


@pytest.fixture(scope="module")
def table() -> Iterator[Table]:
    with real_table() as made:
        yield made


def begun(table: Table, iteration: int = 1, source: str = TRAINING, **options: object) -> str:
    """Start a training, and return its id once it has saved a snapshot and done an iteration."""
    run = table.start(source, **options)
    until(
        lambda: (
            table.store.attempts.newest_snapshot(run) >= 0 or table.store.run(run).fact.state.ended
        )
    )
    until(lambda: table.store.run(run).fact.iteration >= iteration)
    return run


def drawn(table: Table, run: Run, name: str = "main/loss") -> list[int]:
    """Return the iterations of rank 0's curve, in order."""
    points = table.store.reports.points(run.id)
    return [p.iteration for p in points if p.name == name and p.rank == 0]


def curve(table: Table, run: str) -> dict[int, float]:
    """Return rank 0's losses by iteration; of one that was done again, the last."""
    points = table.store.reports.points(run)
    return {p.iteration: p.value for p in points if p.name == "loss" and p.rank == 0}


def test_a_stopped_training_is_resumed_in_the_same_world(table: Table) -> None:
    run = begun(table)
    ask_stop(table.store, run, NAME)
    stopped = table.ended(run).fact
    ask_resume(table.store, run)

    ended = table.ended(run)

    assert stopped.state is RunState.STOPPED
    assert ended.fact.state is RunState.FINISHED, ended.fact.message
    assert (ended.fact.attempt, ended.fact.resumed_at) == (2, stopped.stopped_at)
    assert drawn(table, ended) == [*range(1, 1 + ITERATIONS)]


@pytest.mark.either_mpi
def test_a_training_whose_rank_is_killed_continues(table: Table) -> None:
    run = begun(table, 12)
    fact = table.store.run(run).fact
    victim = table.store.ranks(NAME, fact.generation)[1]
    os.kill(victim.pid, signal.SIGKILL)

    ended = table.ended(run)

    assert ended.fact.state is RunState.FINISHED, ended.fact.message
    assert ended.fact.attempt == 2
    assert ended.fact.message.startswith(f"Rank 1 on {victim.host} was lost (")
    assert drawn(table, ended) == [*range(1, 1 + ITERATIONS)]
    said = visits_sentence(ended, read_visits(table.store, ended))
    assert said == "Examples once: proved, in 6 epochs over 2 attempts."


def test_a_training_whose_snapshots_are_all_damaged_is_killed_before_its_next_one(
    table: Table,
) -> None:
    run = begun(table, 12)
    for attempt in (2, 3):
        _kill(table, run)
        _damage(run)  # before the next ranks read them
        until(lambda attempt=attempt: table.store.run(run).fact.attempt == attempt)
        _damage(run)  # one may have been complete just then
        until(lambda: table.store.run(run).fact.resumed_at == 0)

    ended = table.ended(run)

    assert ended.fact.state is RunState.FINISHED, ended.fact.message
    assert [one.snapshot for one in table.store.attempts.past(run)][1:] == [NONE]
    assert (ended.fact.attempt, ended.fact.iteration) == (3, ITERATIONS)
    assert "It begins again at iteration 0, on 2 ranks." in ended.fact.message
    assert drawn(table, ended) == [*range(1, 1 + ITERATIONS)]


def _kill(table: Table, run: str) -> None:
    """Kill rank 1 of a run."""
    generation = table.store.run(run).fact.generation
    os.kill(table.store.ranks(NAME, generation)[1].pid, signal.SIGKILL)


def _damage(run: str) -> None:
    """Cut off a file of each snapshot of a run."""
    for path in snapshot_directory(run).glob("attempt-*/trainer.npz"):
        os.truncate(path, path.stat().st_size // 2)


@pytest.mark.either_mpi
def test_a_training_moves_to_another_number_of_ranks(table: Table) -> None:
    run = begun(table, parameters=(("epochs", 1_000),))
    ask_size(table.store, Size(3, None), cluster=NAME, oversubscribe=True)

    until(lambda: table.store.run(run).fact.resumed_at > 0)
    moved = table.store.run(run).fact
    until(lambda: table.store.run(run).fact.iteration > moved.resumed_at)
    ask_stop(table.store, run, NAME)

    ended = table.ended(run)
    fact = ended.fact
    assert fact.state is RunState.STOPPED, fact.message
    assert (fact.attempt, fact.ranks) == (2, 3)
    (left,) = table.store.attempts.past(run)
    assert left.message == "It moved from 2 ranks to another size."
    assert left.iteration == left.snapshot == moved.resumed_at
    assert drawn(table, ended) == [*range(1, fact.iteration + 1)]


def test_a_training_moves_at_the_end_of_its_epoch(table: Table) -> None:
    run = begun(table, parameters=(("epochs", 1_000),))
    trains = table.store.run(run).fact
    other = 2 if trains.ranks == 3 else 3
    ask_size(table.store, Size(other, None), cluster=NAME, oversubscribe=True, at=ResizeAt.EPOCH)

    until(lambda: table.store.run(run).fact.resumed_at > 0)
    (left,) = table.store.attempts.past(run)
    ask_stop(table.store, run, NAME)
    ended = table.ended(run)

    assert table.store.attempts.newest_snapshot(run) >= left.iteration
    assert ended.fact.ranks == other
    assert left.iteration % (EXAMPLES // trains.ranks // BATCH) == 0
    assert drawn(table, ended) == [*range(1, ended.fact.iteration + 1)]


def test_an_elastic_loop_is_killed_and_moves_on_the_same_curve(table: Table) -> None:
    whole = table.ended(table.start(LOOP))
    ranks = whole.fact.ranks
    run = begun(table, 12, LOOP, parameters=(("slow_ranks", ranks),))
    fact = table.store.run(run).fact
    os.kill(table.store.ranks(NAME, fact.generation)[1].pid, signal.SIGKILL)
    until(lambda: table.store.run(run).fact.attempt == 2)
    until(lambda: table.store.run(run).fact.iteration > 20)
    other = 2 if ranks == 3 else 3
    ask_size(table.store, Size(other, None), cluster=NAME, oversubscribe=True)

    ended = table.ended(run)

    assert ended.fact.state is RunState.FINISHED, ended.fact.message
    assert (ended.fact.attempt, ended.fact.ranks) == (3, other)
    assert [*curve(table, run)] == [*range(1, 81)]
    assert curve(table, run) == pytest.approx(curve(table, whole.id), rel=1e-6)
    visits = read_visits(table.store, ended)
    assert [(one.epoch, one.times) for one in visits] == [(n, ((1, 60),)) for n in range(20)]
    said = visits_sentence(ended, visits)
    assert said == "Examples once: proved, in 20 epochs over 3 attempts."


@pytest.mark.parametrize("early", [False, True], ids=["after a snapshot", "before the first"])
@pytest.mark.parametrize(
    ("program", "name", "least"), [(LOOP, "loss", 80), (TRAINING, "main/loss", 60)]
)
def test_what_lost_ranks_had_not_delivered_is_in_each_curve_once(
    table: Table, program: str, name: str, least: int, early: bool
) -> None:
    source = CUT_OFF + program.replace("from __future__ import annotations\n", "")
    run = table.start(source, parameters=(("early", int(early)),))

    ended = table.ended(run)

    fact, points = ended.fact, table.store.reports.points(run)
    assert (fact.state, fact.attempt) == (RunState.FINISHED, 2), fact.message
    assert fact.resumed_at == (0 if early else 5)
    (lost,) = table.store.attempts.past(run)
    assert lost.message.startswith("Rank 0 on ")
    for rank in range(fact.ranks):
        drawn = [p.iteration for p in points if p.name == name and p.rank == rank]
        assert drawn == [*range(1, fact.iteration + 1)], rank
    assert fact.iteration >= least
    visits = read_visits(table.store, ended)
    said = visits_sentence(ended, visits)
    assert said.startswith("Examples once: proved, in ")
    assert said.endswith(" over 2 attempts.")


KILL = (PROGRAMS / "kill_first_step.py").read_text(encoding="utf-8")
KILLED = [
    (LOOP, "comm.Allreduce(", "with_kill(comm.Allreduce)("),
    (TRAINING, "model.compute", "model.lossfun = with_kill(model.lossfun)\nmodel.compute"),
]


def killed_at_once(table: Table, program: tuple[str, str, str], kills: int) -> Run:
    """Return a training, once it has ended, whose rank 1 is killed in its first step."""
    source, line, instead = program
    assert line in source
    source = source.replace("from __future__ import annotations\n", "").replace(line, instead)
    return table.ended(table.start(KILL + source, parameters=(("kills", kills),)))


@pytest.mark.parametrize("program", KILLED, ids=["elastic", "Chainer"])
def test_a_training_whose_rank_is_killed_in_its_first_step_begins_again(
    table: Table, program: tuple[str, str, str]
) -> None:
    run = killed_at_once(table, program, 1)

    assert (run.fact.state, run.fact.attempt) == (RunState.FINISHED, 2), run.fact.message
    assert "Retry 1 of 3. It begins again at iteration 0, on" in run.fact.message
    name = "loss" if program[0] is LOOP else "main/loss"
    assert drawn(table, run, name) == [*range(1, run.fact.iteration + 1)]


@pytest.mark.parametrize("program", KILLED, ids=["elastic", "Chainer"])
def test_a_training_whose_rank_is_killed_in_its_first_step_twice_ends(
    table: Table, program: tuple[str, str, str]
) -> None:
    run = killed_at_once(table, program, 2)

    assert (run.fact.state, run.fact.attempt) == (RunState.FAILED, 2), run.fact.message
    assert "It does not begin again by itself: it failed twice before its first" in run.fact.message
    assert (run.fact.failed_rank, run.fact.iteration) == (1, 0)


def losses(table: Table, run: str) -> dict[int, float]:
    """Return rank 0's losses by iteration, each of which is drawn once."""
    points = [p for p in table.store.reports.points(run) if p.name == "loss" and p.rank == 0]
    found = {p.iteration: p.value for p in points}
    assert len(found) == len(points)
    return found


def own_script(table: Table, own: Path, pause: float) -> str:
    """Start a script that loads its own newest checkpoint, on all ranks, and return its id."""
    path = PROGRAMS / "own_checkpoints.py"
    return ask_run(
        table.store,
        kind=RunKind.SCRIPT,
        source=path.read_text(encoding="utf-8"),
        path=str(path),
        options=RunOptions(arguments=(str(own), str(pause)), restart=True),
        cluster=NAME,
    ).id


def test_a_script_with_its_own_checkpoints_starts_again(table: Table, tmp_path) -> None:
    undisturbed = table.ended(own_script(table, tmp_path / "undisturbed.npz", 0.0))
    run = own_script(table, tmp_path / "own.npz", 0.25)
    until(lambda: table.store.run(run).fact.iteration >= 7)
    before = table.store.run(run).fact
    victim = table.store.ranks(NAME, before.generation)[1]
    os.kill(victim.pid, signal.SIGKILL)
    until(lambda: table.store.run(run).fact.resumed_at > 0)
    ask_size(table.store, Size(5 - before.ranks, None), cluster=NAME, oversubscribe=True)

    ended = table.ended(run)

    fact = ended.fact
    assert fact.state is RunState.FINISHED, fact.message
    lost, left = table.store.attempts.past(run)
    assert lost.message.startswith(f"Rank 1 on {victim.host} was lost (")
    assert lost.message.endswith("). Retry 1 of 3.")
    assert left.resumed_at in (5, 10)  # rank 0 may have done some steps more until it ended
    assert fact.message == (
        f"It moved from {before.ranks} ranks to another size. "
        f"The script starts again on {5 - before.ranks} ranks."
    )
    assert losses(table, run) == pytest.approx(losses(table, undisturbed.id), rel=1e-9)
    assert [*losses(table, run)] == [*range(1, 31)]
    assert f"restarts 2 ranks {5 - before.ranks}" in table.written(ended)[0]
