"""A cold cluster start until the first allreduce, over ``ipp.Cluster(engines="mpi")``."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

from .figures import BenchmarkFailed, Row, interleaved
from .place import Place, home, take_down

SCRIPTS = Path(__file__).parent / "scripts"
OURS, THEIRS = "workbench", 'ipp.Cluster(engines="mpi", n=2)'
SECONDS = 180


def measure(place: Place, rounds: int, say: Callable[[str], None]) -> list[Row]:
    """Start both from nothing, in turn, each in unused folders."""
    found = interleaved(rounds, {OURS: partial(_ours, place), THEIRS: partial(_theirs, place)}, say)
    note = "2 ranks; after the imports, as in a notebook"
    return [Row("cold start to the first allreduce", "s", *found.values(), goal=0.25, note=note)]


def _ours(place: Place) -> float:
    with home(place.path("home")):
        try:
            return _seconds("cold_workbench.py", os.environ)
        finally:
            take_down()


def _theirs(place: Place) -> float:
    return _seconds("cold_ipyparallel.py", {**os.environ, "IPYTHONDIR": str(place.path("ipython"))})


def _seconds(script: str, environment: dict[str, str] | os._Environ[str]) -> float:
    done = subprocess.run(
        [sys.executable, str(SCRIPTS / script)],
        check=False,
        env=dict(environment),
        capture_output=True,
        text=True,
        timeout=SECONDS,
    )
    last = (done.stdout.strip().splitlines() or [""])[-1]
    if done.returncode or not last.startswith("seconds "):
        said = (done.stderr.strip().splitlines() or ["nothing"])[-1]
        raise BenchmarkFailed(f"{script} ended with code {done.returncode} and said: {said}")
    return float(last.split()[1])
