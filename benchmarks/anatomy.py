"""The step of a training with step times and gradient noise measured, over one without."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Sequence
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

from .figures import BenchmarkFailed, Row, Series, with_interval
from .place import Place

SCRIPT = Path(__file__).parent / "scripts" / "anatomy_steps.py"
ROOT = Path(__file__).parents[1]
RANKS = 2
TURNS = 12
SECONDS = 600
UNITS = (256, 1000)
FIGURES = ("median", "mean")
GOAL = 1.005
ON, OFF = "timing and noise scale on", "off"


def measure(place: Place, rounds: int, say: Callable[[str], None]) -> list[Row]:
    """Train both ways in turn, in several worlds for each size."""
    rows = []
    for units in UNITS:
        worlds = [_pairs(place, units) for _ in range(2 * rounds)]
        note = f"MLP 784-{units}-{units}-10, 64 images a rank, {RANKS} ranks"
        rows += [_row(f"step, {which}", worlds, at, note) for at, which in enumerate(FIGURES)]
        found = (f"{row.what} {with_interval(row.pairs)}" for row in rows[-len(FIGURES) :])
        say(f"{units} units: {', '.join(found)}")
    return rows


def _row(what: str, worlds: Sequence[Sequence[Sequence[float]]], at: int, note: str) -> Row:
    """Return the medians of each world, and the ratios of all pairs."""
    on, off = (
        Series(label, tuple(median(pair[2 * at + way] for pair in pairs) for pairs in worlds))
        for way, label in enumerate((ON, OFF))
    )
    ratios = [pair[2 * at] / pair[2 * at + 1] for pairs in worlds for pair in pairs]
    note += f"; {len(ratios)} pairs of blocks"
    return Row(what, "s", on, off, goal=GOAL, note=note, pairs=tuple(ratios))


def _pairs(place: Place, units: int) -> list[list[float]]:
    """Return what one world found in each turn: both ways' medians, and both ways' means."""
    mpi = find_mpi()
    world = plan_world(local_hosts(), RANKS, oversubscribe=True)
    hosts = place.path("hosts.txt")
    hosts.write_text(hostfile_text(mpi, world), encoding="utf-8")
    environment = {**rank_environment(mpi, world), "PYTHONPATH": str(ROOT)}
    options = mpiexec_arguments(mpi, world, str(hosts), tuple(sorted(environment)))
    words = [str(place.folder), str(units), str(TURNS)]
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
    return found["pairs"]
