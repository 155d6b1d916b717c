"""Any cell ends, its output is shown, and the next cell runs."""

from __future__ import annotations

import json
import re
import time

import pytest

from tests.hostile.conftest import FRESH_SECONDS, Place
from tests.hostile.table import TABLE, Row
from tests.notebook.kernel import Answer

pytestmark = [
    pytest.mark.contract,
    pytest.mark.mpi,
    pytest.mark.kernel,
    pytest.mark.timeout(300),
]


# What forks, or closes what MPI has opened.
EITHER_MPI = ("children_print", "close_descriptors", "fork_often")
ROWS = [
    pytest.param(row, id=row.cell, marks=[pytest.mark.either_mpi] * (row.cell in EITHER_MPI))
    for row in TABLE
]


@pytest.mark.parametrize("row", ROWS)
def test_a_hostile_cell_ends_and_the_next_one_runs(place: Place, row: Row) -> None:
    if place.ranks not in row.ranks:
        pytest.skip(f"is meant for {row.ranks} ranks")
    with place.fresh_after_a_failure():
        place.train(f"kept = {row.cell!r}", FRESH_SECONDS)

        begun = time.monotonic()
        answer = place.train(row.source, 5 * row.seconds)
        took = time.monotonic() - begun
        logs = place.logs() if row.logs else ""
        after = place.train("print('kept', kept)" if row.keeps else "print('next')", FRESH_SECONDS)

        seen = everything(answer)
        assert [pattern for pattern in row.sees if not re.search(pattern, seen)] == []
        assert [pattern for pattern in row.never if re.search(pattern, seen)] == []
        assert [pattern for pattern in row.logs if not re.search(pattern, logs)] == []
        assert not row.line or f"line {row.line}" in answer.error
        assert "workbench/" not in answer.error, "a frame of ours is shown to the user"
        assert answer.nbytes <= row.nbytes
        assert (f"kept {row.cell}" if row.keeps else "next") in after.text
        assert took <= row.seconds, "it held, but took too long"


def everything(answer: Answer) -> str:
    """Return all that the page was sent: text, errors and the data of displays."""
    return "\n".join(
        [answer.text, answer.error, *(json.dumps(m["content"]) for m in answer.messages)]
    )
