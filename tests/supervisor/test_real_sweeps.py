"""Runs beside each other on real ranks.

Each trial of a sweep is done once, through a kill, a stop, a resize and a new supervisor.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.supervisor.real import NAME, Table, real_table
from tests.waiting import until
from workbench.core.cluster.size import Size
from workbench.core.run.model import Run, RunKind, RunState
from workbench.core.run.run_options import RunOptions
from workbench.core.run.sweep import Outcome, SweepWish, Trial
from workbench.requests.cluster import ask_size
from workbench.requests.supervisor import supervisor_pid
from workbench.requests.sweep import ask_sweep, ask_sweep_stop, extend_sweep
from workbench.store.run_names import NOTEBOOK_VARIABLE

pytestmark = [pytest.mark.mpi, pytest.mark.contract, pytest.mark.timeout(240)]

TRAINING = """
import time
import numpy
import workbench

state = {"at": numpy.zeros(1)}
for step in workbench.elastic(state, steps=20):
    state["at"] += 1
    time.sleep(0.05)
    workbench.report(loss=(float(lr) - 0.3) ** 2 + 1 / float(state["at"][0]))
"""


@pytest.fixture(scope="module")
def table() -> Iterator[Table]:
    with real_table() as made:
        yield made


def ask(table: Table, source: str, path: str = "", **given: object) -> SweepWish:
    parameters = (("lr", [0.1, 0.2, 0.3, 0.4, 0.5, 0.6]),)
    return ask_sweep(
        table.store,
        RunOptions(parameters=parameters),
        given={"minimize": "loss", **given},
        kind=RunKind.SCRIPT if path else RunKind.CELL,
        source=source,
        path=path,
        cluster=NAME,
    )


def over(table: Table, sweep: SweepWish) -> list[Trial]:
    until(lambda: table.store.sweeps.find(sweep.id)[1].over, seconds=120.0)
    return table.store.sweeps.trials(sweep.id)


def check_complete(table: Table, trials: list[Trial]) -> None:
    """Check that each value was tried once, to its end."""
    assert [dict(one.parameters)["lr"] for one in trials] == [0.1, 0.2, 0.3, 0.4, 0.5, 0.6]
    why = [table.store.run(one.run).fact.message for one in trials]
    assert {one.outcome for one in trials} == {Outcome.FINISHED}, why
    assert min(trials, key=lambda one: (one.value is None, one.value)).number == 2


def test_cells_are_tried_beside_each_other_and_leave_the_notebook_s_variables(table: Table):
    table.do("shift = 0.3\nlr = 'mine'")
    source = "import workbench\nworkbench.report(loss=(lr - shift) ** 2)"

    trials = over(table, ask(table, source, ranks_per_trial=(1, 1)))

    check_complete(table, trials)
    shown = table.do("print(lr)")
    assert {one.strip() for one in table.written(shown).values()} == {"mine"}


def test_scripts_are_tried_through_a_lost_rank_and_another_supervisor(table: Table, tmp_path: Path):
    # No page follows it, so the supervisor hears of the first step, and of others a second later.
    source = TRAINING.replace("steps=20", "steps=60")
    path = tmp_path / "train.py"
    path.write_text(source)
    sweep = ask(table, source, str(path), ranks_per_trial=(1, 1))
    run = until(lambda: table.store.sweeps.trials(sweep.id))[0].run
    until(lambda: table.store.run(run).fact.iteration > 3)

    generation = table.store.run(run).fact.generation
    [rank] = table.store.ranks(NAME, generation)
    os.kill(rank.pid, signal.SIGKILL)
    until(lambda: table.store.run(run).fact.attempt == 2)
    os.kill(supervisor_pid(NAME), signal.SIGKILL)
    ask_size(table.store, Size(2), cluster=NAME)  # wakes another one

    trials = over(table, sweep)

    check_complete(table, trials)
    assert len({one.run for one in trials}) == 6


def test_a_sweep_is_stopped_resized_and_continued(table: Table):
    sweep = ask(table, TRAINING, ranks_per_trial=(1, 1))
    until(lambda: table.store.sweeps.trials(sweep.id))
    ask_sweep_stop(table.store, sweep.name)
    begun = over(table, sweep)
    assert len(begun) < 6

    extend_sweep(table.store, sweep.name, {})
    until(lambda: len(table.store.sweeps.trials(sweep.id)) > len(begun))
    ask_size(table.store, Size(1), cluster=NAME)
    trials = over(table, sweep)
    ask_size(table.store, Size(2), cluster=NAME, oversubscribe=True)

    assert [one.number for one in trials] == [*range(6)]
    assert {one.outcome for one in trials[len(begun) :]} == {Outcome.FINISHED}
    assert len({one.run for one in trials}) == 6


def test_cells_of_two_notebooks_are_beside_each_other(
    table: Table, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """The second one begins and ends while the first one still waits for a file."""

    def start(notebook: str, source: str) -> str:
        monkeypatch.setenv(NOTEBOOK_VARIABLE, str(tmp_path / notebook))
        return table.start(source, ranks=1)

    def do(notebook: str, source: str) -> Run:
        return table.ended(start(notebook, source))

    end = tmp_path / "end"
    waits = f"import os, time\nwhile not os.path.exists({str(end)!r}):\n    time.sleep(0.02)"
    do("a.ipynb", "factor = 7")
    first = start("a.ipynb", f"mine = 1\n{waits}")
    until(lambda: table.store.run(first).fact.started)

    second = do("b.ipynb", "kept = factor * 6")
    third = do("b.ipynb", "print(kept)")
    same = start("a.ipynb", "print(mine)")
    during = table.store.run(first), table.store.run(same)
    end.touch()
    last = table.ended(same)
    fourth = do("b.ipynb", "print(kept + 1)")

    assert [one.fact.state for one in during] == [RunState.RUNNING, RunState.QUEUED]
    assert second.fact.generation == third.fact.generation == fourth.fact.generation
    assert second.fact.generation != last.fact.generation == table.store.run(first).fact.generation
    shown = [table.written(one).values() for one in (third, last, fourth)]
    assert [[*map(str.strip, one)] for one in shown] == [["42"], ["1"], ["43"]]
