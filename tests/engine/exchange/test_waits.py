"""Messages are waited for alike whether that was compiled or not."""

from __future__ import annotations

import os
from pathlib import Path
from types import SimpleNamespace

import pytest

from workbench.engine.exchange import direct_waits

PROGRAM = Path(__file__).parent / "programs" / "waits.py"


def test_a_library_that_hides_its_functions_is_used_through_mpi4py(monkeypatch) -> None:
    monkeypatch.setattr(direct_waits.ctypes, "CDLL", lambda path: SimpleNamespace())

    assert direct_waits.direct_waits(20, (1e-5, 1e-4)) is None


@pytest.mark.mpi
@pytest.mark.contract
@pytest.mark.either_mpi
@pytest.mark.parametrize("way", ["compiled", "python"])
def test_a_wait_ends_with_its_message_or_an_error_or_a_signal_and_holds_up_no_thread(
    way: str, on_shared_ranks
) -> None:
    if way == "compiled" and direct_waits.compiled is None:
        reason = "the package was built without a C compiler"
        (pytest.fail if os.environ.get("CI") else pytest.skip)(reason)
    found = on_shared_ranks(PROGRAM, 2)[0]

    assert found[f"{way}: heard"]
    assert found[f"{way}: waited"]
    assert found[f"{way}: right"]
    assert found[f"{way}: worked meanwhile"]
    assert found[f"{way}: too long"]
    assert way == "python" or found["kind"] == "Waits"
