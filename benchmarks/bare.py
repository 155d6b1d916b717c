"""Run a script as one would without workbench: ``mpiexec -n 2 python script.py``."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

from workbench.cluster.mpi_installation import (
    find_mpi,
    hostfile_text,
    mpiexec_arguments,
    rank_environment,
)
from workbench.core.world.world import plan_world
from workbench.requests.cluster import local_hosts

from .figures import BenchmarkFailed
from .place import Place

SCRIPT = Path(__file__).parent / "scripts" / "mlp.py"
SECONDS = 600


def mpiexec(place: Place, ranks: int, arguments: list[str]) -> float:
    """Run ``SCRIPT`` to its end, and return the moment (epoch seconds) at which it was started.

    The options and the environment are those with which workbench starts its own ranks.

    Raises:
        BenchmarkFailed: It failed.
    """
    mpi = find_mpi()
    world = plan_world(local_hosts(), ranks, oversubscribe=True)
    hosts = place.path("hosts.txt")
    hosts.write_text(hostfile_text(mpi, world), encoding="utf-8")
    environment = rank_environment(mpi, world)
    options = mpiexec_arguments(mpi, world, str(hosts), tuple(sorted(environment)))
    command = [mpi.mpiexec, "-n", str(ranks), *options, sys.executable, str(SCRIPT), *arguments]
    started = time.time()
    done = subprocess.run(
        command,
        check=False,
        cwd=place.folder,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=SECONDS,
    )
    if done.returncode:
        last = (done.stderr.strip().splitlines() or ["without a word"])[-1]
        raise BenchmarkFailed(f"mpiexec ended with code {done.returncode}: {last}")
    return started
