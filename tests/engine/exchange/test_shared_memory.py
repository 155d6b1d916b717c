"""Shared memory leaves nothing behind, and is optional."""

from __future__ import annotations

from pathlib import Path

import pytest

pytestmark = pytest.mark.mpi

PROGRAMS = Path(__file__).parent / "programs"


@pytest.mark.parametrize("size", [2, 3])
def test_shared_memory_has_no_name_and_all_ranks_know_where_there_is_none(on_ranks, size) -> None:
    all_found = on_ranks(PROGRAMS / "shared_memory.py", size)

    for mine in all_found:
        assert mine["nameless"]
        assert mine["no file"]
        assert mine["seen"] == [rank + 1 for rank in range(size)]
        assert "cannot be shared (no room)" in mine["no memory"]
        assert "is not rank 0's shared memory" in mine["another's"]
        assert mine["mean"] == (size - 1) / 2
        assert mine == all_found[0]
