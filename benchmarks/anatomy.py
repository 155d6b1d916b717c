"""The step of a training with step times and gradient noise measured, over one without."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from statistics import median

from workbench.cluster.mpi_installation import (
    find_mpi,
    hostfile_text,
    mpiexec_arguments,
    rank_environment,
)
from workbench.core.world.world import plan_world
from workbench.requests.cluster import local_hosts

from .figures import BenchmarkFailed, Row, Series
from .place import Place

SCRIPT = Path(__file__).parent / "scripts" / "anatomy_steps.py"
ROOT = Path(__file__).parents[1]
RANKS = 2
TURNS = 4
# Where a process's arrays come to lie makes one way up to 3 % quicker than the other.
PROCESSES = 8
SECONDS = 600
UNITS = (256, 1000)
ON, OFF = "timing and noise scale on", "off"


def measure(place: Place, rounds: int, say: Callable[[str], None]) -> list[Row]:
    """Train both ways in turn, in several worlds for each size."""
    rows = []
    for units in UNITS:
        worlds = [_steps(place, units, number) for number in range(max(PROCESSES, rounds))]
        on, off, on_mean, off_mean = zip(*worlds, strict=True)
        note = f"MLP 784-{units}-{units}-10, 64 images a rank, {RANKS} ranks"
        rows += [
            Row("step, median", "s", Series(ON, on), Series(OFF, off), goal=1.01, note=note),
            Row("step, mean", "s", Series(ON, on_mean), Series(OFF, off_mean), goal=1.01),
        ]
        say(f"{units} units: {rows[-2].ratio:.4f} (median), {rows[-1].ratio:.4f} (mean)")
    return rows


def _steps(place: Place, units: int, number: int) -> tuple[float, ...]:
    """Return what one world found: the median of its turns."""
    mpi = find_mpi()
    world = plan_world(local_hosts(), RANKS, oversubscribe=True)
    hosts = place.path("hosts.txt")
    hosts.write_text(hostfile_text(mpi, world), encoding="utf-8")
    environment = {**rank_environment(mpi, world), "PYTHONPATH": str(ROOT)}
    options = mpiexec_arguments(mpi, world, str(hosts), tuple(sorted(environment)))
    words = [str(place.folder), str(units), str(TURNS), str(number % 2)]
    done = subprocess.run(
        [mpi.mpiexec, "-n", str(RANKS), *options, sys.executable, str(SCRIPT), *words],
        check=False,
        cwd=place.folder,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=SECONDS,
    )
    if done.returncode:
        raise BenchmarkFailed(f"mpiexec ended with code {done.returncode}: {done.stderr[-1500:]}")
    found: dict[str, list[list[float]]] = json.loads(done.stdout.splitlines()[-1])
    return tuple(median(values) for values in zip(*found["pairs"], strict=True))
