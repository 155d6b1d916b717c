"""Run a script as one would without workbench: ``mpiexec -n 2 python script.py``."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

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

SCRIPTS = Path(__file__).with_name("scripts")
SCRIPT = SCRIPTS / "mlp.py"
WITH_US: Mapping[str, str] = MappingProxyType({"PYTHONPATH": str(Path(__file__).parents[1])})
"""The environment of a script that imports this checkout's folders."""
FOUND = "found: "
SECONDS = 600.0


@dataclass(frozen=True)
class Ran:
    """A program that ended well: when it was started (epoch seconds), and what its ranks wrote."""

    started: float
    output: str

    @property
    def found(self) -> list[dict[str, Any]]:
        """What its ranks found, which each reports in a line of its own."""
        return found_in(self.output)


def found_in(output: str) -> list[dict[str, Any]]:
    """Return what ranks found, by the lines in which they report it."""
    lines = (line for line in output.splitlines() if line.startswith(FOUND))
    return [json.loads(line.removeprefix(FOUND)) for line in lines]


def run_ranks(
    place: Place,
    script: Path,
    ranks: int,
    *arguments: str,
    environment: Mapping[str, str] = WITH_US,
    seconds: float = SECONDS,
) -> Ran:
    """Run a script on ranks of this machine, to its end.

    The options and the environment are those with which workbench starts its own ranks.

    Raises:
        BenchmarkFailed: It failed, or took longer than ``seconds``.
    """
    mpi = find_mpi()
    world = plan_world(local_hosts(), ranks, oversubscribe=True)
    hosts = place.path("hosts.txt")
    hosts.write_text(hostfile_text(mpi, world), encoding="utf-8")
    variables = {**rank_environment(mpi, world), **environment}
    options = mpiexec_arguments(mpi, world, str(hosts), tuple(sorted(variables)))
    command = [mpi.mpiexec, "-n", str(ranks), *options, sys.executable, str(script), *arguments]
    started = time.time()
    try:
        done = subprocess.run(
            command,
            check=False,
            cwd=place.folder,
            env={**os.environ, **variables},
            capture_output=True,
            text=True,
            timeout=seconds,
        )
    except subprocess.TimeoutExpired as error:
        late = f"{script.name} took more than {seconds:g} s on {ranks} ranks"
        raise BenchmarkFailed(f"{late}: measure fewer rounds.") from error
    if done.returncode:
        said = done.stderr.strip()[-2000:] or "it said nothing"
        raise BenchmarkFailed(f"{script.name} ended with code {done.returncode}: {said}")
    return Ran(started, done.stdout)


def mpiexec(place: Place, ranks: int, arguments: list[str]) -> float:
    """Run ``SCRIPT`` to its end, and return the moment (epoch seconds) at which it was started.

    Raises:
        BenchmarkFailed: It failed.
    """
    return run_ranks(place, SCRIPT, ranks, *arguments, environment={}).started
