"""Start a world whose ranks are on several hosts: mpiexec runs on the first of them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any

from workbench.cluster.launcher import FOREIGN, GENERATION_VARIABLE, engine_program
from workbench.cluster.leftover_processes import mark_of
from workbench.cluster.mpi import (
    HostNetwork,
    Mpi,
    MpiKind,
    hostfile_text,
    link_environment,
    mpi_beside,
    mpiexec_arguments,
    rank_environment,
)
from workbench.cluster.remote_hosts import Login
from workbench.core.node.launch_protocol import (
    FOLDER,
    HOME,
    Launch,
    Launched,
    launch_text,
    read_launched,
)
from workbench.core.world.remote import Completed, Session
from workbench.core.world.sshconfig import agent_config, known_hosts
from workbench.core.world.world import WORLD_VARIABLE, Host, World, network_of
from workbench.errors import ClusterError, MachineError

LAUNCH_SECONDS = 30.0
HEAD_VARIABLE = "WORKBENCH_HEAD"
PATIENCE_VARIABLE = "WORKBENCH_PATIENCE"


@dataclass(frozen=True)
class Start:
    """All that a world on several hosts is started from.

    Args:
        connection: Text of the engines' connection file.
        folder: On the first host, for the files of this world; relative to the home there.
        numeric: The hosts' numeric addresses.
        patience: Seconds that a rank which is cut off waits before it ends itself.
        python: By which its ranks run, on every host.
    """

    mpi: Mpi
    world: World
    generation: int
    connection: str
    login: Login
    folder: str
    numeric: tuple[str, ...]
    patience: float
    python: str = sys.executable


def engine_ports(connection: str) -> tuple[int, ...]:
    """Return the ports that the engines' connection file names."""
    found: list[int] = []
    for value in json.loads(connection).values():
        found += [item for item in _items(value) if type(item) is int]
    return tuple(dict.fromkeys(found))


def launch_of(start: Start, *, distinct: bool) -> Launch:
    """Return what the first host is to start.

    Args:
        distinct: Whether each host has a host name of its own.
    """
    mpi, world = mpi_beside(start.mpi, start.python), start.world
    used = [host for host in world.hosts if host.address in world.placement]
    link = HostNetwork(f"{FOLDER}/ssh_config", network_of(start.numeric), distinct)
    exported = {
        **rank_environment(mpi, world),
        GENERATION_VARIABLE: str(start.generation),
        WORLD_VARIABLE: mark_of(PurePosixPath(start.folder).parent.name, start.generation),
        HEAD_VARIABLE: start.numeric[0],
        PATIENCE_VARIABLE: f"{start.patience:g}",
        "IPP_CONNECTION_INFO": start.connection,
        "IPYTHONDIR": f"{HOME}/{PurePosixPath(start.folder).parent}/ipython",
    }
    if mpi.kind is MpiKind.OPENMPI:
        # The user who logs in there may be root, though this process is not.
        exported |= {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
    names = tuple(sorted(exported))
    several = link if len(used) > 1 else None
    options = mpiexec_arguments(mpi, world, f"{FOLDER}/hosts", names, several)
    command = [mpi.mpiexec, "-n", str(world.size), *options]
    command += engine_program(nanny=False, patience=start.patience, python=start.python)
    environment = {**exported, **(link_environment(mpi, world, link) if several else {})}
    return Launch(
        start.folder,
        (("hosts", hostfile_text(mpi, world)), *_login_files(start.login, used)),
        tuple(command),
        tuple(environment.items()),
    )


def launch(start: Start, head: Session | None, *, distinct: bool) -> Launched:
    """Start mpiexec on the first host, and wait until it is started.

    Raises:
        ClusterError: It was not.
        MachineError: The session is lost.
    """
    text = launch_text(launch_of(start, distinct=distinct))
    command = [start.python, "-m", "workbench.node.launch"]
    if head is None:
        done = _run_here(command, text)
    else:
        done = head.run(command, input=text, seconds=LAUNCH_SECONDS)
    if done.status != 0:
        said = (done.errors.strip().splitlines() or ["it gave no reason"])[-1]
        raise ClusterError(
            f"{start.world.hosts[0].address} could not start the world ({said})",
            f"see that this environment is there too, at {start.python}.",
        )
    try:
        return read_launched(done.output)
    except MachineError as error:
        raise ClusterError(
            f"{start.world.hosts[0].address} could not start the world ({error})",
            "see what runs there.",
        ) from error


def _login_files(login: Login, hosts: Sequence[Host]) -> tuple[tuple[str, str], ...]:
    key = f"{FOLDER}/key" if login.key else ""
    files = [
        ("ssh_config", agent_config(hosts, f"{FOLDER}/known_hosts", key)),
        ("known_hosts", known_hosts(login.known_hosts)),
    ]
    return (*files, ("key", login.key)) if login.key else tuple(files)


def _run_here(command: list[str], text: str) -> Completed:
    environment = {name: value for name, value in os.environ.items() if name not in FOREIGN}
    try:
        done = subprocess.run(
            command,
            input=text,
            capture_output=True,
            text=True,
            check=False,
            timeout=LAUNCH_SECONDS,
            env=environment,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return Completed(1, "", str(error))
    return Completed(done.returncode, done.stdout, done.stderr)


def _items(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]
