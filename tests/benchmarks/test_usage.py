"""What processes use is read from time to time, also when one of them ends meanwhile."""

from __future__ import annotations

import subprocess
import sys

import psutil

from benchmarks.usage import Usage
from tests.waiting import until


def test_a_process_that_has_ended_keeps_what_it_has_used() -> None:
    program = "sum(range(10**7))\ninput()"
    with subprocess.Popen([sys.executable, "-c", program], stdin=subprocess.PIPE) as child:
        usage = Usage({"controller": [psutil.Process(child.pid)]}, [])
        until(lambda: usage.read().seconds["controller"])
        child.communicate(b"\n")

    assert usage.read().seconds["controller"] > 0
