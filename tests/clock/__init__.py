"""Set the wall clock of the processes that a test starts, and of no other."""

from __future__ import annotations

import os
from pathlib import Path

import pytest


class SetClock:
    """The wall clock of the Pythons that are started from now on.

    Args:
        path: Where they look by how much it was set.
    """

    def __init__(self, path: Path, patch: pytest.MonkeyPatch) -> None:
        self._path = path
        self.set(0.0)
        patch.setenv("WORKBENCH_TEST_CLOCK", str(path))
        patch.setenv("PYTHONPATH", str(Path(__file__).parent), prepend=os.pathsep)

    def set(self, seconds: float) -> None:
        """Set it that many seconds forth, from the real time."""
        new = self._path.with_suffix(".new")
        new.write_text(f"{seconds}\n", encoding="ascii")
        os.replace(new, self._path)
