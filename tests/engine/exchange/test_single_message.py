"""Gradients in one message are averaged with the header, or refused alike on all ranks."""

from __future__ import annotations

from pathlib import Path

import pytest

PROGRAM = Path(__file__).parent / "programs" / "single_messages.py"


@pytest.mark.mpi
@pytest.mark.contract
@pytest.mark.parametrize("size", [2, pytest.param(3, marks=pytest.mark.either_mpi), 4])
def test_gradients_of_one_message_are_averaged_or_refused(on_shared_ranks, size: int) -> None:
    for mine in on_shared_ranks(PROGRAM, size):
        for one in ("mpi", "ring"):
            assert mine[f"{one}: kind"] == "SingleMessage"
            assert mine[f"{one}: right"] == [True] * 3
            assert mine[f"{one}: kept"]
            assert mine[f"{one}: from any memory"]
            error = str(mine[f"{one}: not finite"])
            assert error.startswith(f"The gradient of /b on rank {size - 1} is not finite")
            assert mine[f"{one}: unchanged"]
            assert mine[f"{one}: forgiven"]
            assert f"(4, 30) on rank {size - 1}" in str(mine[f"{one}: another shape"])
            assert mine[f"{one}: afterwards"] == "no error"
