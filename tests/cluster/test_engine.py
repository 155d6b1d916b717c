"""An engine has the same standard streams from before its first import until it ends."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

PROGRAM = Path(__file__).parent / "programs" / "early_stream.py"


def test_what_bound_a_stream_early_continues_by_it() -> None:
    answer = subprocess.run([sys.executable, PROGRAM], capture_output=True, text=True, check=False)

    assert answer.returncode == 0, answer.stderr
    assert answer.stdout == ""
    assert [line.rpartition(" ")[2] for line in answer.stderr.splitlines()] == ["before", "after"]
