"""Ranks of PyTorch that wait inside of its own code are named with their lines, in real runs."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.supervisor.real import Table, real_table
from tests.waiting import until
from workbench.core.run.hang import Hang, decode_hang
from workbench.view.hang_text import hang_sentence

pytest.importorskip("torch", reason="torch is an extra that the tests do without")

pytestmark = [pytest.mark.torch, pytest.mark.mpi, pytest.mark.timeout(180)]
# On a busy machine a look may come late: what is promised is 5 s.
REPORTED_WITHIN = 15.0
PROGRAM = Path(__file__).parent / "programs" / "torch_waits.py"


@pytest.fixture(scope="module")
def table() -> Iterator[Table]:
    with real_table() as made:
        yield made


def hang_of(table: Table, run: str) -> Hang | None:
    return decode_hang(table.store.run(run).fact.hang)


@pytest.mark.parametrize(
    ("how", "calls"),
    [
        ("evaluates alone", {"DistributedDataParallel.forward", "backward"}),
        pytest.param(
            "one more step",
            {"DistributedDataParallel.forward", "backward"},
            marks=pytest.mark.weekly,
        ),
        pytest.param("a handle", {"wait"}, marks=pytest.mark.weekly),
    ],
)
def test_a_rank_that_waits_in_pytorchs_own_code_is_named(
    table: Table, how: str, calls: set[str]
) -> None:
    run = table.start(PROGRAM.read_text(), grace=0.1, environment=(("WAITS", how),))
    until(lambda: "trained" in table.written(table.store.run(run)).get(0, ""))
    begun = time.monotonic()

    found = until(lambda: (hang := hang_of(table, run)) and hang.sure and hang)
    seconds = time.monotonic() - begun
    line = hang_sentence(table.store.run(run))
    table.store.wish_stop(run)
    table.ended(run)

    assert seconds < REPORTED_WITHIN
    assert {one.call for one in found.waiting} <= calls, line
    assert all(one.line for one in (*found.waiting, *found.others)), line
