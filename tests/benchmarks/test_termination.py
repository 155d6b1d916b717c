"""A benchmark that is terminated ends what it has started."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from pathlib import Path

import psutil

PROGRAM = Path(__file__).parent / "programs" / "terminated.py"
ROOT = Path(__file__).parents[2]
SECONDS = 60.0


def test_what_a_terminated_benchmark_started_ends_though_the_signal_comes_twice(tmp_path) -> None:
    """``timeout`` signals the process and then its group."""
    with subprocess.Popen(
        [sys.executable, str(PROGRAM)],
        cwd=ROOT,
        env={**os.environ, "TMPDIR": str(tmp_path), "PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as benchmark:
        assert benchmark.stdout is not None
        folder, pid = benchmark.stdout.readline().split()
        sleeper = psutil.Process(int(pid))
        benchmark.send_signal(signal.SIGTERM)
        assert benchmark.stdout.readline() == "ends\n"
        benchmark.send_signal(signal.SIGTERM)
        status = benchmark.wait(SECONDS)
    is_left = sleeper.is_running()
    with contextlib.suppress(psutil.NoSuchProcess):
        sleeper.kill()

    assert (status, is_left) == (128 + signal.SIGTERM, False)
    assert not Path(folder).exists()
