"""Every method of our communicator has the behaviour that ChainerMN documents."""

from __future__ import annotations

from pathlib import Path

import pytest

pytestmark = [pytest.mark.mpi, pytest.mark.contract]

DOCUMENTED = Path(__file__).parent / "programs" / "documented_methods.py"
SIZES = pytest.mark.parametrize(
    "size",
    [
        1,
        2,
        pytest.param(3, marks=pytest.mark.either_mpi),
        pytest.param(4, marks=pytest.mark.weekly),
    ],
    ids="{} ranks".format,
)


@SIZES
def test_each_method_does_what_is_documented(on_shared_ranks, size) -> None:
    for mine in on_shared_ranks(DOCUMENTED, size, "collectives"):
        assert len(mine) > 100
        assert [what for what, holds in mine.items() if not holds] == []


@SIZES
def test_models_of_several_types_are_averaged_and_sent(on_shared_ranks, size) -> None:
    for mine in on_shared_ranks(DOCUMENTED, size, "models"):
        assert len(mine) > 100
        assert [what for what, holds in mine.items() if not holds] == []
