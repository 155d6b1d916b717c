"""Lightning, Hugging Face's Trainer and accelerate train on our ranks without a launcher."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.supervisor.real import NAME, Table, real_table
from workbench.core.run.model import RunKind, RunState
from workbench.requests.run import ask_run

pytest.importorskip("torch", reason="torch is an extra that the tests do without")

pytestmark = [pytest.mark.torch, pytest.mark.mpi, pytest.mark.timeout(180)]
PROGRAMS = Path(__file__).parent / "programs" / "frameworks"


@pytest.fixture(scope="module", params=[1, 2])
def ranks(request) -> int:
    """Return on how many ranks to train; those of one number keep none of the other's state."""
    return request.param


@pytest.fixture(scope="module")
def table(ranks: int) -> Iterator[Table]:
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
    table: Table, framework: str, program: str, logged: set[str], ranks: int
) -> None:
    pytest.importorskip(framework, reason=f"{framework} is installed by hand into .venv-torch")
    path = PROGRAMS / f"{program}.py"

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
        # The script's own count of ranks and steps.
        assert f"ranks {ranks} rank {rank} steps {run.fact.iteration}" in text
    names = {row.name for row in table.store.points(run.id)}
    assert {"loss", "lr"} | logged <= names
    assert run.fact.epoch == 3.0
