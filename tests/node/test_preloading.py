"""What ranks have loaded is tried in a process of its own, then imported for the next ones."""

from __future__ import annotations

import os
import select
import sys
from pathlib import Path

import pytest

from workbench.node import preloading
from workbench.node.preloading import LateImports


@pytest.mark.parametrize(("name", "is_imported"), [("waits_for_core", True), ("spins", False)])
def test_a_trial_is_bounded_by_the_processor_time_that_it_gets(
    monkeypatch: pytest.MonkeyPatch, name: str, is_imported: bool
) -> None:
    monkeypatch.setattr(preloading, "TRIAL_SECONDS", 0.2)
    monkeypatch.syspath_prepend(str(Path(__file__).parent / "programs"))
    late = LateImports([name], lambda: None)

    trial = late.begin()
    select.select([trial], [], [])
    os.close(trial)
    refusal = late.end()

    assert (name in sys.modules) is is_imported
    assert bool(refusal) is not is_imported
