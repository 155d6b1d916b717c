"""Gradients in one message are averaged alike whether that was compiled or not."""

from __future__ import annotations

import os
from pathlib import Path
from types import SimpleNamespace

import pytest
from mpi4py import MPI

from workbench.core.performance.exchange_model import Algorithm
from workbench.engine.exchange import direct_sums, direct_waits

PROGRAM = Path(__file__).parent / "programs" / "single_messages.py"
SIZES = [2, pytest.param(3, marks=pytest.mark.either_mpi), 4]


def test_a_library_that_hides_its_functions_is_used_through_mpi4py(monkeypatch) -> None:
    monkeypatch.setattr(direct_waits.ctypes, "CDLL", lambda path: SimpleNamespace())

    assert direct_sums.direct_sums(MPI.COMM_SELF) is None


@pytest.fixture(params=SIZES, ids="{} ranks".format)
def everywhere(request: pytest.FixtureRequest, on_shared_ranks) -> list[dict[str, object]]:
    """Give what each rank found, by algorithm and case."""
    if direct_waits.compiled is None:
        reason = "the package was built without a C compiler"
        (pytest.fail if os.environ.get("CI") else pytest.skip)(reason)
    found: list[dict[str, object]] = on_shared_ranks(PROGRAM, request.param)
    return found


@pytest.mark.mpi
@pytest.mark.contract
def test_a_compiled_message_averages_to_the_same_bits_as_one_in_python(everywhere) -> None:
    last = len(everywhere) - 1
    for rank, mine in enumerate(everywhere):
        assert mine["ring: right"]
        assert mine["ring: kind"] == ("Message" if rank else "PythonMessage")
        for one in (Algorithm.MPI, Algorithm.DOUBLING):
            case = {name: mine[f"{one}: {name}"] for name in ("kinds", "right", "replaced", "kept")}
            assert case == {
                "kinds": ["Message", "PythonMessage"],
                "right": 3 * [[True, True, True, True]],
                "replaced": [0, 0, 0],
                "kept": True,
            }
            assert mine[f"{one}: from any memory"]
            error = str(mine[f"{one}: not finite"])
            assert error.startswith(f"The gradient of /b on rank {last} is not finite")
            assert mine[f"{one}: unchanged"]
            assert mine[f"{one}: forgiven"]
            assert f"(4, 30) on rank {last}" in str(mine[f"{one}: another shape"])
            assert mine[f"{one}: afterwards"] == "no error"
