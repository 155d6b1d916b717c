"""A rank draws the bars of tqdm as text, for its widgets reach no page."""

from __future__ import annotations

import subprocess
import sys

import pytest

AS_IN_A_KERNEL = """
import ipykernel.zmqshell, sys
from workbench.engine.progress_bars import draw_bars_as_text
draw_bars_as_text()
draw_bars_as_text()
{source}
for _ in tqdm(range(3), file=sys.stdout):
    pass
"""


@pytest.mark.parametrize("module", ["tqdm", "tqdm.auto", "tqdm.autonotebook", "tqdm.notebook"])
def test_a_bar_is_text_wherever_it_is_imported_from(module) -> None:
    program = AS_IN_A_KERNEL.format(source=f"from {module} import tqdm")

    answer = subprocess.run(
        [sys.executable, "-W", "error", "-c", program], capture_output=True, text=True, check=False
    )

    assert "100%" in answer.stdout, answer.stderr
