"""Real ranks that a cell has spoiled are replaced, and nothing is done twice unasked."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.supervisor.real import NAME, Table, real_table
from tests.waiting import until
from workbench.core.run.model import Run, RunState

pytestmark = [pytest.mark.mpi, pytest.mark.timeout(240)]

FINALIZE = "from mpi4py import MPI\nprint(MPI.COMM_WORLD.rank)\nMPI.Finalize()"
ALONE = "from mpi4py import MPI\nif MPI.COMM_WORLD.rank == 1:\n    MPI.Finalize()"
DESTROY = "zmq.Context.instance().destroy(linger=0)"
AUDIT = """
import sys
def hook(event, arguments):
    if event == "open":
        raise RuntimeError("not here")
sys.addaudithook(hook)
"""
LATER = "import os, threading\nthreading.Timer({}, lambda: {}).start()"


@pytest.fixture(scope="module")
def table() -> Iterator[Table]:
    with real_table() as made:
        yield made


def repeated(table: Table, generation: int) -> list[str]:
    runs = reversed(table.store.runs(NAME, setups=True))
    return [
        one.wish.replays for one in runs if one.wish.replays and one.fact.generation == generation
    ]


def message(run: Run) -> str:
    return run.fact.message


def replaced_after(run: Run) -> str:
    return f"The ranks were replaced after run {run.wish.name!r}, because "


@pytest.mark.parametrize(
    ("spoils", "why"),
    [
        (FINALIZE, "MPI was ended there by MPI.Finalize()"),
        (ALONE, "rank 1 can run no other cell: MPI was ended there by MPI.Finalize()"),
        ("import os, signal\nos.kill(os.getpid(), signal.SIGTERM)", "SIGTERM came there"),
        ("get_ipython().kernel.io_loop.stop()", "the event loop of its engine was stopped"),
        (f"import zmq\n{DESTROY}", "the sockets of its engine were closed"),
        (AUDIT, "no file can be opened there (RuntimeError: not here)"),
    ],
    ids=["finalize", "finalize-alone", "sigterm", "loop", "zmq", "audit"],
)
def test_ranks_that_a_cell_has_spoiled_are_replaced_at_once(
    table: Table, spoils: str, why: str
) -> None:
    table.do("kept = 7")

    spoiled = table.do(spoils)
    first, second = table.do("x = 1"), table.do("print(kept)")

    assert spoiled.fact.state is RunState.FINISHED, message(spoiled)
    assert why in message(spoiled)
    assert f"run {spoiled.wish.name!r} is not repeated" in message(spoiled)
    assert message(first).startswith(
        f"The ranks were replaced after run {spoiled.wish.name!r}, because "
    )
    assert first.fact.generation == second.fact.generation == spoiled.fact.generation + 1
    assert {*table.written(second).values()} == {"7\n"}
    assert spoiled.id not in repeated(table, first.fact.generation)


def test_quit_ends_the_cell_and_no_rank(table: Table) -> None:
    cell = table.do("kept = 8\nquit()\nprint('never')")
    after = table.do("print(kept)")

    assert {*table.written(cell).values()} == {
        "quit() ends the cell here; the ranks stay, until `%dist_delete`.\n"
    }
    assert after.fact.generation == cell.fact.generation
    assert {*table.written(after).values()} == {"8\n"}


def test_what_a_cell_has_written_is_written_once(table: Table, tmp_path: Path) -> None:
    ledger = tmp_path / "ledger.txt"
    pays = table.do(
        f"from mpi4py import MPI\nif MPI.COMM_WORLD.rank == 0:\n"
        f"    open({str(ledger)!r}, 'a').write('paid\\n')\nprice = 3"
    )
    table.do("from numpy import *")
    table.do("import os\nos.kill(os.getpid(), 11)")

    plain = table.do("print(1 + 1)")
    used = table.do("print(array([MPI.COMM_WORLD.size]))")
    refused = table.do("print(price)")

    assert ledger.read_text() == "paid\n"
    assert {*table.written(plain).values()} == {"2\n"}
    assert repeated(table, plain.fact.generation)[0] == pays.id, "its import alone"
    assert {*table.written(used).values()} == {"[2]\n"}
    assert refused.fact.state is RunState.FAILED
    assert message(refused) == (
        f"It uses `price` of run {pays.wish.name!r}, which wrote files, so it is not repeated "
        "unasked: run it again if you need it."
    )


def test_a_cell_that_ends_a_rank_later_is_named(table: Table) -> None:
    harmful = table.do(LATER.format(0.5, "os._exit(3)"))

    victim = table.do("import time\ntime.sleep(30)")
    after = table.do("print('next')")

    assert f"Code of run {harmful.wish.name!r} ended the rank." in message(victim)
    assert after.fact.state is RunState.FINISHED, message(after)
    assert harmful.id not in repeated(table, after.fact.generation)


def test_a_rank_that_ends_between_two_cells_is_explained(table: Table) -> None:
    harmful = table.do(LATER.format(0.1, "os._exit(3)"))
    until(lambda: table.store.cluster_fact(NAME).generation > harmful.fact.generation)

    after = table.do("print('next')")

    assert message(after).startswith(
        f"The ranks were replaced after run {harmful.wish.name!r}, because "
    )
    assert "exit status 3" in message(after)


def test_a_rank_that_begins_no_cell_is_replaced_and_the_cell_runs(
    table: Table, tmp_path: Path
) -> None:
    done = tmp_path / "done"
    harmful = table.do(
        LATER.format(
            0.1, f"(zmq_.Context.instance().destroy(linger=0), open({str(done)!r}, 'w'))"
        ).replace("import os", "import zmq as zmq_, os")
    )
    until(done.exists)

    after = table.do("print('next')")

    assert after.fact.state is RunState.FINISHED, message(after)
    assert {*table.written(after).values()} == {"next\n"}
    assert f"after run {harmful.wish.name!r}, because ranks 0, 1 accepted no cell" in message(after)
