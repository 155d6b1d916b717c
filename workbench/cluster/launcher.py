"""The ipyparallel launchers of the ``workbench`` profile: one engine set is one MPI world."""

from __future__ import annotations

import asyncio
import math
import os
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ipyparallel.cluster.launcher import LocalControllerLauncher, MPIEngineSetLauncher
from traitlets import Bool, Dict, Float, Integer, List, Unicode, default

from workbench.cluster.mpi_installation import (
    find_mpi,
    hostfile_text,
    mpiexec_arguments,
    rank_environment,
)
from workbench.core.world.world import WORLD_VARIABLE, Host, World, is_foreign
from workbench.node.warm_ranks import STUB

# Each wakes the controller and every rank. An engine is registered without waiting for one.
HEARTBEAT_SECONDS = 2.0
SILENCE_SECONDS = 6.0  # after which the controller takes an engine on its machine for gone
_CHECK_SECONDS = HEARTBEAT_SECONDS + 0.5  # between an engine's checks, by ipyparallel
_ABSENT_SECONDS = 60.0  # for a controller, where nothing waits for it longer
LOOK_SECONDS = 0.01
GENERATION_VARIABLE = "WORKBENCH_GENERATION"
MARKS_VARIABLE = "WORKBENCH_MARKS"
# All ranks of one mpiexec start alike; each rank of a simulated node sets its own mark.
_MARKED = (
    f'exec env "$(echo "${MARKS_VARIABLE}" | '
    'cut -d \' \' -f $((${OMPI_COMM_WORLD_RANK:-${PMI_RANK:-0}} + 1)))" "$@"'
)


def patience_option(seconds: float) -> str:
    """Return the controller's option for the time until it gives up unreachable engines."""
    return f"--HeartMonitor.max_heartmonitor_misses={int(seconds / HEARTBEAT_SECONDS)}"


def through_stub(program: Sequence[str], path: str, stub: str = STUB) -> list[str]:
    """Return a rank's command, by way of the fork server at ``path`` if there is one."""
    return [program[0], "-I", "-S", stub, path, *program] if path else [*program]


def engine_program(
    *, nanny: bool, patience: float = 0.0, python: str = sys.executable
) -> list[str]:
    """Return the command of one engine that is a rank.

    Args:
        patience: Seconds that it waits for an absent controller; 0 for the default.
        python: The Python that runs it.
    """
    options = [] if nanny else ["--IPEngine.enable_nanny=False"]
    # Its own exit would hang in MPI's finalize, so the rank's own timeout, which waits for no other
    # rank, comes well before.
    misses = int((2 * patience + _ABSENT_SECONDS) / _CHECK_SECONDS)
    options.append(f"--IPEngine.max_heartbeat_misses={misses}")
    return [python, "-m", "workbench.cluster.engine", "--mpi", *options]


class CurveControllerLauncher(LocalControllerLauncher):
    """A controller on this machine with encrypted and authenticated connections."""

    heartbeat_seconds = Float(
        HEARTBEAT_SECONDS, config=True, help="Seconds between heartbeats to the engines."
    )

    @default("controller_cmd")
    def _default_controller_cmd(self) -> list[str]:
        return [sys.executable, "-m", "workbench.cluster.controller"]

    @property
    def cluster_args(self) -> list[str]:
        """The controller's options: ours first, so that the user's own override them."""
        return [
            "--IPController.enable_curve=True",
            f"--HeartMonitor.period={int(self.heartbeat_seconds * 1000)}",
            *super().cluster_args,
        ]

    async def get_connection_info(self, timeout: float | None = None) -> Any:
        """Return the connections' content once the controller has written them.

        ipyparallel looks ten times a second; a start waits for that.

        Raises:
            TimeoutError: It has not within ``timeout`` seconds.
        """
        waits = self.connection_info_timeout if timeout is None else timeout
        deadline = time.monotonic() + waits if waits >= 0 else math.inf
        paths = [Path(path) for path in self.connection_files.values()]
        while not all(path.exists() for path in paths):
            if self.poll() is not None:
                break  # its error is ipyparallel's to raise
            if time.monotonic() > deadline:
                raise TimeoutError(f"it wrote no connections within {waits:g} s")
            await asyncio.sleep(LOOK_SECONDS)
        return await super().get_connection_info(timeout)


class WorldEngineSetLauncher(MPIEngineSetLauncher):
    """Starts the engines of one MPI world with a single mpiexec.

    Used by the supervisor, which sets the hosts; and by ``ipp.Cluster(profile="workbench")``,
    which uses this machine.
    """

    hosts: Any = List(help="[address, slots] of each host; this machine when empty.").tag(
        to_dict=True
    )
    link = Float(0.0, help="Bytes a second between simulated hosts; 0 for no bound.").tag(
        to_dict=True
    )
    generation = Integer(0, help="Number of the engines' generation.").tag(to_dict=True)
    mark = Unicode("", help="Identifies the processes of this world.").tag(to_dict=True)
    nanny = Bool(
        True,
        config=True,
        help="Whether each engine has ipyparallel's nanny process, which forwards signals.",
    )
    forks = Unicode("", help="Socket of the fork server; empty to start every rank by itself.")
    mpi_args: Any
    marks: Any = List(help="NAME=value of each rank, in rank order, where ranks differ.")
    rank_environment = Dict(help="Additional environment of every rank.", config=True)

    @default("environment")
    def _default_environment(self) -> dict[str, str]:
        return {}

    def world(self, n: int) -> World:
        """Return the world that ``n`` engines form."""
        pairs = self.hosts or [["localhost", len(os.sched_getaffinity(0))]]
        hosts = tuple(Host(address, slots) for address, slots in pairs)
        return World(hosts, n, oversubscribe=True, link=self.link)

    def start(self, n: int) -> Any:
        """Write the host file, then start ``n`` engines."""
        mpi = find_mpi()
        world = self.world(n)
        path = Path(self.output_file).with_suffix(".hosts")
        path.write_text(hostfile_text(mpi, world), encoding="utf-8")
        self.environment.update(rank_environment(mpi, world))
        self.environment.update(self.rank_environment)
        self.environment[GENERATION_VARIABLE] = str(self.generation)
        if self.mark:
            self.environment[WORLD_VARIABLE] = self.mark
        if self.marks:
            self.environment[MARKS_VARIABLE] = " ".join(self.marks)
        exported = tuple(sorted({*self.environment, "IPP_CONNECTION_INFO"}))
        unset = [word for name in sorted(os.environ) if is_foreign(name) for word in ("-u", name)]
        self.mpi_cmd = ["env", *unset, mpi.mpiexec]  # ipyparallel can only add variables
        self.mpi_args = [*mpiexec_arguments(mpi, world, str(path), exported), *self.mpi_args]
        return super().start(n)

    @property
    def program(self) -> list[str]:
        """Return the command of an engine, with this Python."""
        marked = ["sh", "-c", _MARKED, "sh"] if self.marks else []
        return [*marked, *through_stub(engine_program(nanny=self.nanny), self.forks)]
