"""A hang is reported within seconds, wherever the other ranks are, with real engines."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator

import pytest

from tests.supervisor.real import WORLD, Table, real_table
from tests.waiting import until
from workbench.core.run.hang import decode_hang
from workbench.core.run.model import RunState
from workbench.view.hang_text import hang_sentence

pytestmark = [pytest.mark.mpi, pytest.mark.contract, pytest.mark.timeout(180)]

REPORTED_WITHIN = 5.0
# mpi4py's own allreduce keeps Python's lock where it is a communicator's first.
CELL = f"{WORLD}import queue, time\nif comm.rank == 0:\n    comm.allreduce(1)\nelse:\n    {{}}\n"


@pytest.fixture(scope="module")
def table() -> Iterator[Table]:
    with real_table() as made:
        yield made


def stop_hanging(table: Table, run: str) -> str:
    """Return the report on a hang, stop the run, and check that the report stays."""
    until(lambda: table.store.run(run).fact.state is RunState.RUNNING)
    begun = time.monotonic()
    until(lambda: decode_hang(table.store.run(run).fact.hang))
    assert time.monotonic() - begun < REPORTED_WITHIN
    line = hang_sentence(table.store.run(run))
    table.store.wish_stop(run)
    kept = table.ended(run)
    assert kept.fact.state is RunState.STOPPED
    assert "had waited in allreduce" in hang_sentence(kept)
    return line


@pytest.mark.parametrize(
    ("others", "reported"),
    [
        ("time.sleep(60)", r"rank 1 is at line 8 \(time.sleep\)\.$"),
        ("pass", r"rank 1 has ended\.$"),
        (
            "queue.Queue().get()",
            r"rank 1 is at line 8 \(queue.Queue\(\).get\)\.$",
        ),
        ("comm.barrier()", r"rank 1 has waited in barrier for \d s \(line 8\)\.$"),
    ],
    ids=["sleeps", "ended", "data", "another call"],
)
def test_a_hang_is_reported_with_call_and_lines(table: Table, others: str, reported: str) -> None:
    run = table.start(CELL.format(others), grace=0.1)

    line = stop_hanging(table, run)

    assert re.match(r"Rank 0 has waited in allreduce for [34] s \(line 6 of the cell\); ", line)
    assert re.search(reported, line)


@pytest.mark.either_mpi
def test_a_hang_is_reported_right_after_a_failed_cell(table: Table) -> None:
    table.fail("raise ValueError")

    run = table.start(CELL.format("time.sleep(15)"), grace=0.1)

    assert "rank 1 is at line 8 (time.sleep)" in stop_hanging(table, run)


def test_a_hang_that_ended_by_itself_is_not_kept(table: Table) -> None:
    run = table.start(CELL.format("time.sleep(5); comm.allreduce(1)"))
    until(lambda: decode_hang(table.store.run(run).fact.hang))

    fact = table.ended(run).fact

    assert (fact.state, fact.hang) == (RunState.FINISHED, "")
