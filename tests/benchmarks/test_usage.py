"""What processes use is read from time to time, also when one of them ends meanwhile."""

from __future__ import annotations

import subprocess
import sys
import time

import psutil

from benchmarks.usage import Usage


def test_a_process_that_has_ended_keeps_what_it_has_used() -> None:
    program = "sum(range(10**7))\ninput()"
    with subprocess.Popen([sys.executable, "-c", program], stdin=subprocess.PIPE) as child:
        usage = Usage({"controller": [psutil.Process(child.pid)]}, [])
        deadline = time.monotonic() + 30
        while not usage.read().seconds["controller"]:
            assert time.monotonic() < deadline
        child.communicate(b"\n")

    assert usage.read().seconds["controller"] > 0
