"""A framework in a package of its own gets curves, Stop and snapshots from its entry point."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.supervisor.real import NAME, Table, real_table
from tests.waiting import until
from workbench.core.run.model import Run, RunState
from workbench.requests.resume import ask_resume
from workbench.requests.run import ask_stop

pytestmark = [pytest.mark.mpi, pytest.mark.timeout(180)]

PACKAGE = Path(__file__).parents[1] / "packages" / "sprocket"
STEPS = 120
BEGIN = "from sprocket import Feed, Line, Trainer\nline, feed = Line(), Feed(seconds=0.02)\n"
UNCHANGED = f"{BEGIN}Trainer(line, feed).fit({STEPS})\nprint(line.numbers.tolist())\n"
BY_HAND = f"""
import workbench
from mpi4py import MPI
{BEGIN}
for step in workbench.elastic({{"line": line}}, steps={STEPS}, data=feed):
    loss, gradient = line.gradient(*step.batch)
    MPI.COMM_WORLD.Allreduce(MPI.IN_PLACE, gradient)
    line.numbers -= 0.1 * gradient / MPI.COMM_WORLD.size
    workbench.report(loss=loss)
print(line.numbers.tolist(), step.epoch)
"""


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Table]:
    """Have ranks that find the package installed."""
    place = tmp_path_factory.mktemp("site")
    install = ["install", "--quiet", "--no-deps", "--no-build-isolation", "--no-index"]
    command = [sys.executable, "-m", "pip", *install, "--target", place, PACKAGE]
    subprocess.run(command, check=True)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", str(place), prepend=os.pathsep)
        with real_table() as made:
            yield made


def resumed(table: Table, source: str) -> tuple[Run, Run]:
    """Return a run as it was stopped in the middle, and as it ended when it was resumed."""
    run = table.start(source)
    until(
        lambda: (
            table.store.attempts.newest_snapshot(run) >= 0 or table.store.run(run).fact.state.ended
        )
    )
    ask_stop(table.store, run, NAME)
    stopped = table.ended(run)
    ask_resume(table.store, run)
    return stopped, table.ended(run)


def curve(table: Table, run: Run, name: str) -> list[tuple[int, float]]:
    """Return what rank 0 reported under a name."""
    points = table.store.reports.points(run.id)
    return [(one.iteration, one.value) for one in points if (one.name, one.rank) == (name, 0)]


def test_an_unchanged_training_has_curves_stops_and_continues(table: Table) -> None:
    whole = table.do(UNCHANGED)

    stopped, ended = resumed(table, UNCHANGED)

    assert stopped.fact.state is RunState.STOPPED
    assert 0 < stopped.fact.iteration < STEPS
    assert ended.fact.state is RunState.FINISHED, ended.fact.error
    assert ended.fact.resumed_at == stopped.fact.iteration
    losses = curve(table, ended, "loss")
    assert losses == curve(table, whole, "loss")
    assert [iteration for iteration, _ in losses] == [*range(1, STEPS + 1)]
    assert {value for _, value in curve(table, ended, "lr")} == {0.1}
    assert curve(table, ended, "step/data")[0][1] >= 0.02
    assert table.written(ended)[0] == table.written(whole)[0]


def test_an_elastic_loop_takes_its_data_and_its_model(table: Table) -> None:
    stopped, ended = resumed(table, BY_HAND)

    assert stopped.fact.state is RunState.STOPPED
    assert ended.fact.state is RunState.FINISHED, ended.fact.error
    assert (ended.fact.resumed_at, ended.fact.epoch) == (stopped.fact.iteration, STEPS / 8)
    losses = [value for _, value in curve(table, ended, "loss")]
    assert len(losses) == STEPS
    assert losses[-1] < losses[0] / 10
