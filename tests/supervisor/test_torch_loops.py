"""Unchanged scripts of PyTorch on two real ranks: curves, iterations, step times and Stop."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.supervisor.real import Table, real_table, until
from workbench.core.run.model import Run, RunState

pytest.importorskip("torch", reason="torch is an extra that the tests do without")

pytestmark = [pytest.mark.torch, pytest.mark.mpi, pytest.mark.timeout(180)]
LOOPS = Path(__file__).parents[1] / "engine" / "programs" / "torch_loops"


@pytest.fixture(scope="module")
def table() -> Iterator[Table]:
    with real_table() as made:
        yield made


def curve(table: Table, run: Run, name: str, rank: int) -> list[float]:
    """Return what a rank reported under a name, in the order of the iterations."""
    rows = [row for row in table.store.points(run.id) if (row.name, row.rank) == (name, rank)]
    assert [row.iteration for row in rows] == [*range(1, len(rows) + 1)]
    return [row.value for row in rows]


def test_a_distributed_training_has_the_curves_that_its_ranks_print(table: Table) -> None:
    run = table.do((LOOPS / "ddp.py").read_text())

    assert run.fact.state is RunState.FINISHED, run.fact.error
    printed = {rank: json.loads(text) for rank, text in table.written(run).items()}
    for rank, said in printed.items():
        assert curve(table, run, "loss", rank) == pytest.approx(said["loss"])
    assert printed[0] != printed[1]
    assert (run.fact.iteration, run.fact.epoch) == (12, 3.0)
