"""A run on this process, as far as an engine's parts need one, and worlds of several ranks."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import psutil
import pytest

from workbench.cluster.mpi import (
    find_mpi,
    hostfile_text,
    mpiexec_arguments,
    rank_environment,
)
from workbench.core.report import Batch, decode
from workbench.core.world import Host, plan_world
from workbench.engine.current import Current, set_current
from workbench.engine.log import RunLog

WATCHED = """
import json, sys, threading, time
from pathlib import Path
from mpi4py import MPI
from workbench.engine.communicator import Worlds, is_echo, watch

folder, fault_tolerant = Path(sys.argv[1]), sys.argv[2] == "1"
real = MPI.COMM_WORLD
rank, size = real.rank, real.size
worlds = Worlds(fault_tolerant=fault_tolerant)
real.Barrier()  # as the supervisor does: nothing begins before all have joined
found = {}
"""
WORLD_SECONDS = 200
TOLD = """
(folder / f"{rank}.json").write_text(json.dumps(found))
"""


class StartedWorld:
    """Ranks that run a program; its first arguments are a folder and whether MPI has ULFM."""

    def __init__(
        self, folder: Path, program: str, size: int, *arguments: str, link: float = 0.0
    ) -> None:
        mpi = find_mpi()
        world = plan_world((Host("localhost", os.cpu_count() or 1),), size, oversubscribe=True)
        world = replace(world, link=link)
        hosts = folder / "hosts"
        hosts.write_text(hostfile_text(mpi, world))
        (folder / "program.py").write_text(program)
        variables = rank_environment(mpi, world)
        options = mpiexec_arguments(mpi, world, str(hosts), tuple(variables))
        ranks = ["-n", str(size), sys.executable, str(folder / "program.py")]
        told = [str(folder), str(int(mpi.fault_tolerant)), *arguments]
        self.folder, self.size = folder, size
        self.process = subprocess.Popen(
            [mpi.mpiexec, *options, *ranks, *told],
            env=os.environ | variables,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def end(self) -> int:
        """Wait for the ranks to end by themselves, and return what mpiexec does."""
        self.said = self.process.communicate(timeout=WORLD_SECONDS)[0]
        return self.process.returncode

    def found(self) -> list[dict[str, Any]]:
        """Return what each rank found; all must have ended well."""
        assert self.end() == 0, self.said
        return [json.loads((self.folder / f"{n}.json").read_text()) for n in range(self.size)]

    def close(self) -> None:
        """End what has not ended; Open MPI with ULFM leaves the ranks beside one that aborts."""
        for process in psutil.process_iter():
            with contextlib.suppress(psutil.Error):
                if str(self.folder / "program.py") in process.cmdline():
                    process.kill()
        if self.process.stdout is not None and not self.process.stdout.closed:
            self.process.communicate()


Started = Callable[..., StartedWorld]
OnRanks = Callable[..., list[dict[str, Any]]]


@pytest.fixture(scope="session")
def start_ranks(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Started]:
    """Start a Python program as one MPI world, as the launcher does."""
    with contextlib.ExitStack() as worlds:

        def start(program: str, size: int, *arguments: str, **options: Any) -> StartedWorld:
            folder = tmp_path_factory.mktemp("world")
            world = StartedWorld(folder, program, size, *arguments, **options)
            return worlds.enter_context(contextlib.closing(world))

        yield start


@pytest.fixture(scope="session")
def on_ranks(start_ranks: Started) -> OnRanks:
    """Run a program with ``worlds`` and ``found`` at hand; return what each rank found."""
    return lambda program, size, *arguments, **options: start_ranks(
        WATCHED + program + TOLD, size, *arguments, **options
    ).found()


@pytest.fixture(scope="session")
def ulfm() -> None:
    """Skip where MPI cannot free a rank that is blocked."""
    if not find_mpi().fault_tolerant:
        pytest.skip("this MPI cannot revoke a communicator (ULFM); its world is started again")


@pytest.fixture
def log(tmp_path: Path) -> RunLog:
    return RunLog("a-run", 0, tmp_path / "runs" / "rank-0.log")


@pytest.fixture
def current_run(log: RunLog) -> Iterator[Current]:
    """Be inside a run for as long as the test lasts."""
    run = Current(log)
    set_current(run)
    yield run
    set_current(None)


@pytest.fixture
def taken(log: RunLog) -> Callable[[], Batch]:
    """Take what has gathered in the log, as the channel does."""

    def take() -> Batch:
        line = log.take()
        batch = decode(line) if line else Batch("a-run", 0, 0)
        assert isinstance(batch, Batch)
        return batch

    return take
