"""Lightning, Hugging Face's Trainer and accelerate train on our ranks without a launcher."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.supervisor.real import NAME, Table, real_table
from workbench.core.run.model import Run, RunKind, RunState
from workbench.requests.run import ask_run

pytest.importorskip("torch", reason="torch is an extra that the tests do without")

pytestmark = [pytest.mark.torch, pytest.mark.mpi, pytest.mark.timeout(180)]
PROGRAMS = Path(__file__).parent / "programs" / "frameworks"


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

        names = {row.name for row in table.store.points(run.id)}
        assert {"loss", "lr"} | logged <= names
        assert run.fact.epoch == 3.0


def trained(table: Table, path: Path, ranks: int) -> Run:
    """Return a finished run of a script, which counts ranks and steps as the run does."""
    asked = ask_run(
        table.store,
        kind=RunKind.SCRIPT,
        source=path.read_text(),
        path=str(path),
        cluster=NAME,
        ranks=ranks,
    )
    run = table.ended(asked.id)
    assert run.fact.state is RunState.FINISHED, run.fact.error
    written = table.written(run)
    assert len(written) == ranks
    for rank, text in written.items():
        assert f"ranks {ranks} rank {rank} steps {run.fact.iteration}" in text
    return run
