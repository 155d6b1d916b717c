"""Exchange a ResNet-50's gradients between two ranks of this machine, in several ways."""

from __future__ import annotations

import importlib.util
import json
import os
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from workbench.cluster.mpi_installation import find_mpi, mpiexec_arguments, rank_environment
from workbench.core.world.world import Host, World

from .figures import BenchmarkFailed, Row, Series
from .place import Place

SCRIPT = Path(__file__).with_name("scripts") / "exchange_memory.py"
ROOT = Path(__file__).parents[1]
RANKS = 2
WHAT = "gradient exchange of ResNet-50, 2 ranks"
NOTE = "161 arrays, 25.6 M numbers in single precision"
NO_GLOO = "gloo left out: there is no torch here, `pip install torch==2.13.0`"
SECONDS = 300.0


def measure(place: Place, rounds: int, say: Callable[[str], None]) -> list[Row]:
    """Have one world exchange in all ways in turn, once a round."""
    ways = ["ours", "naive", "one buffer", "copy"]
    has_torch = importlib.util.find_spec("torch") is not None
    if has_torch:
        ways.append("gloo")
    else:
        say(NO_GLOO)
    found = _run(place, max(rounds, 9), ways)
    ours = Series("workbench.create_communicator()", found["ours"])
    rivals = {
        "naive": "ChainerMN naive",
        "one buffer": "MPI allreduce of one buffer",
        "gloo": "gloo, buckets of 25 MB",
    }
    rows = [
        Row(WHAT, "s", ours, Series(label, found[way]), goal=1.0, note=NOTE)
        for way, label in rivals.items()
        if way in found
    ]
    bound = Series("one copy of the gradients, both ranks at once", found["copy"])
    return [*rows, Row(f"{WHAT}, distance to the bound", "s", ours, bound)]


def _run(place: Place, rounds: int, ways: list[str]) -> dict[str, tuple[float, ...]]:
    mpi, world = find_mpi(), World((Host("localhost", RANKS),), RANKS)
    hosts = place.path("hosts")
    hosts.write_text(f"localhost slots={RANKS}\n")
    variables = {**rank_environment(mpi, world), "PYTHONPATH": str(ROOT)}
    words = mpiexec_arguments(mpi, world, str(hosts), tuple(variables))
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = str(probe.getsockname()[1])
    reported = [sys.executable, str(SCRIPT), str(rounds), ",".join(ways), port]
    done = subprocess.run(
        [mpi.mpiexec, "-n", str(RANKS), *words, *reported],
        env=os.environ | variables,
        capture_output=True,
        text=True,
        check=False,
        timeout=SECONDS,
    )
    lines = [line for line in done.stdout.splitlines() if line.startswith("found: ")]
    if done.returncode != 0 or not lines:
        raise BenchmarkFailed(f"{SCRIPT.name} failed: {done.stderr[-2000:]}")
    found = json.loads(lines[0].removeprefix("found: "))
    return {way: tuple(found[way]) for way in ways}
