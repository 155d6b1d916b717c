"""A rank draws tqdm's bars as text, because its widgets reach no page."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

BAR = str(Path(__file__).parents[1] / "programs" / "bar.py")


@pytest.mark.parametrize("module", ["tqdm", "tqdm.auto", "tqdm.autonotebook", "tqdm.notebook"])
def test_a_bar_is_text_wherever_it_is_imported_from(module) -> None:
    answer = subprocess.run(
        [sys.executable, "-W", "error", BAR, module], capture_output=True, text=True, check=False
    )

    assert "100%" in answer.stdout, answer.stderr
