"""Lightning, Hugging Face's Trainer, accelerate and JAX train on our ranks without a launcher."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.supervisor.real import NAME, Table, real_table
from workbench.core.run.model import Run, RunKind, RunState
from workbench.core.run.run_options import RunOptions
from workbench.requests.run import ask_run

pytest.importorskip("torch", reason="torch is an extra that the tests do without")

pytestmark = [pytest.mark.torch, pytest.mark.mpi, pytest.mark.timeout(700)]
PROGRAMS = Path(__file__).parent / "programs" / "frameworks"
SECONDS = 240.0  # to load a framework on each rank takes long on a busy machine


@pytest.fixture(scope="module")
def table() -> Iterator[Table]:
    with real_table() as made:
        yield made


@pytest.mark.parametrize(
    ("framework", "program", "logged"),
    [
        ("lightning", "lightning_module", {"train_loss", "halved"}),
        ("transformers", "transformers_trainer", {"grad_norm"}),
        ("accelerate", "accelerate_loop", {"final"}),
    ],
)
def test_an_unmodified_script_has_its_steps_and_what_it_logs(
    table: Table, framework: str, program: str, logged: set[str]
) -> None:
    pytest.importorskip(framework, reason=f"{framework} is installed by hand into .venv-torch")
    path = PROGRAMS / f"{program}.py"

    # A framework keeps what it knows of the ranks, and one rank misses the second run.
    for ranks in (2, 1, 2, 2):
        run = trained(table, path, ranks)

        names = {row.name for row in table.store.reports.points(run.id)}
        assert {"loss", "lr"} | logged <= names
        assert run.fact.epoch == 3.0


@pytest.mark.parametrize("framework", ["accelerate", "lightning"])
def test_a_launcher_in_a_cell_trains_on_the_ranks_that_there_are(
    table: Table, framework: str
) -> None:
    pytest.importorskip(framework, reason=f"{framework} is installed by hand into .venv-torch")

    run = table.do((PROGRAMS / f"launch_{framework}.py").read_text(), SECONDS)

    assert run.fact.error == ""
    assert run.fact.iteration == 5
    written = table.written(run)
    assert [f"trained {rank} of 2" in written[rank] for rank in (0, 1)] == [True, True]
    assert "in place of new processes." in written[0]


def test_jax_trains_on_the_ranks_of_each_run_and_its_reports_are_the_curve(table: Table) -> None:
    pytest.importorskip("jax", reason="jax is installed by hand into .venv-torch")
    path = PROGRAMS / "jax_mesh.py"

    curves = [whole_curve(table, trained(table, path, ranks)) for ranks in (2, 1, 2, 2)]

    for curve in curves:  # one batch, however many ranks share it
        assert curve == pytest.approx(curves[0], rel=1e-4)
    assert curves[0][-1] < 0.01 < curves[0][0]


def test_jax_stays_for_later_cells_until_one_begins_again(table: Table) -> None:
    pytest.importorskip("jax", reason="jax is installed by hand into .venv-torch")
    source = (PROGRAMS / "jax_mesh.py").read_text()
    trained(table, PROGRAMS / "jax_mesh.py", 2)

    cells = [
        table.do(cell, SECONDS)
        for cell in (source, "print(float(jax.jit(jnp.sum)(weights)))", source)  # executed again
    ]

    assert [run.fact.error for run in cells] == [""] * 3
    said = table.written(cells[1])
    assert said[0] == said[1]
    assert {run.fact.generation for run in cells} == {cells[0].fact.generation}


def whole_curve(table: Table, run: Run) -> list[float]:
    """Return the losses that the store has of rank 0, which are those that it printed."""
    rows = [
        row for row in table.store.reports.points(run.id) if (row.name, row.rank) == ("loss", 0)
    ]
    printed = table.written(run)[0].split("losses ")[1].splitlines()[0]
    values = [row.value for row in rows]
    assert values == pytest.approx(json.loads(printed))
    return values


def trained(table: Table, path: Path, ranks: int) -> Run:
    """Return a finished run of a script, which counts ranks and steps as the run does."""
    asked = ask_run(
        table.store,
        kind=RunKind.SCRIPT,
        source=path.read_text(),
        path=str(path),
        cluster=NAME,
        options=RunOptions(ranks=ranks),
    )
    run = table.ended(asked.id, SECONDS)
    assert run.fact.state is RunState.FINISHED, run.fact.error
    written = table.written(run)
    assert len(written) == ranks
    for rank, text in written.items():
        assert f"ranks {ranks} rank {rank} steps {run.fact.iteration}" in text
    return run
