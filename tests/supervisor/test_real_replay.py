"""A notebook's training continues on new ranks with the data and the model of earlier cells."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.supervisor.real import NAME, Table, real_table
from tests.waiting import until
from workbench.core.cluster.size import Size
from workbench.core.run.model import RunFact, RunState
from workbench.requests.cluster import ask_size
from workbench.requests.run import ask_stop

pytestmark = [pytest.mark.mpi, pytest.mark.timeout(180)]

CELLS = Path(__file__).parent / "programs" / "notebook"
LEFT = "print(comm.size, len(part), steps_after, first.t, model.predictor.W.array[0, 0])"


@pytest.fixture(scope="module")
def table() -> Iterator[Table]:
    with real_table() as made:
        yield made


def cell(name: str) -> str:
    return (CELLS / f"{name}.py").read_text(encoding="utf-8")


def trains(table: Table, run: str, attempt: int) -> RunFact:
    """Return the fact of a run once this attempt has done an iteration."""

    def look() -> RunFact | None:
        fact = table.store.run(run).fact
        assert not fact.state.ended, fact.message
        first = fact.resumed_at if attempt > 1 else 6  # a snapshot is saved at the fifth
        has_begun = fact.attempt == attempt and first >= 0
        return fact if has_begun and fact.iteration > first else None

    return until(look)


def test_a_notebook_in_three_cells_is_resized_and_loses_a_rank(table: Table) -> None:
    made = [table.do(cell("data")), table.do(cell("model"))]
    assert {one.fact.state for one in made} == {RunState.FINISHED}, made[-1].fact.error
    run = table.start(cell("training"))
    trains(table, run, 1)
    ask_size(table.store, Size(3, None), cluster=NAME, oversubscribe=True)

    moved = trains(table, run, 2)
    os.kill(table.store.ranks(NAME, moved.generation)[1].pid, signal.SIGKILL)
    lost = trains(table, run, 3)
    ask_stop(table.store, run, NAME)
    table.ended(run)
    left = table.do(LEFT)

    assert (moved.ranks, lost.ranks) == (3, 3)
    assert [past.state for past in table.store.attempts.past(run)] == [
        RunState.STOPPED,
        RunState.LOST,
    ]
    assert "Repeated before it on these ranks: " in lost.message
    ids = [one.id for one in made]
    again = [one for one in table.store.runs(NAME, setups=True) if one.wish.replays in (*ids, run)]
    assert [one.wish.replays for one in reversed(again)] == [*ids, run, *ids]
    # The model's own training was read from its last snapshot, at its seventh step.
    assert {one.fact.iteration for one in again if one.wish.replays == made[1].id} == {7}
    reported = {point.name for one in again for point in table.store.reports.points(one.id)}
    assert "main/loss" not in reported, "no step was done again"
    assert left.fact.state is RunState.FINISHED, left.fact.error
    written = table.written(left)
    # ChainerMN's first step only sends the parameters, so the optimizer counts six.
    assert {text.rsplit(" ", 1)[0] for text in written.values()} == {"3 40 6 6"}
    assert len({*written.values()}) == 1, "all ranks have the same model"
