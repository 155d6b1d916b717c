"""The worlds of a cluster on several hosts: starts them, finds them again, cleans up."""

from __future__ import annotations

import ipaddress
import json
import os
import re
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import asdict, dataclass, replace
from pathlib import Path, PurePosixPath
from typing import Any

from workbench.cluster.launcher import GENERATION_VARIABLE, engine_program, through_stub
from workbench.cluster.leftovers import mark_of
from workbench.cluster.mpi_installation import (
    HostNetwork,
    Mpi,
    MpiKind,
    hostfile_text,
    link_environment,
    mpi_beside,
    mpiexec_arguments,
    rank_environment,
)
from workbench.cluster.mpi_world import NodeMpiexec, WorldHandles
from workbench.cluster.node_forks import PLAIN
from workbench.cluster.process_monitor import ProcessMonitor
from workbench.cluster.relay import RELAY, relay, relay_script
from workbench.cluster.remote_hosts import CLUSTER_FOLDER, Login, RemoteHosts
from workbench.core.messages import Count, decode
from workbench.core.node.agent_protocol import Forks
from workbench.core.node.launch_protocol import (
    FOLDER,
    PID,
    Launch,
    Launched,
    launch_text,
    read_launched,
)
from workbench.core.world.known_hosts import agent_config, known_hosts
from workbench.core.world.remote import Completed, Session, python_of
from workbench.core.world.world import (
    CONNECTION_VARIABLE,
    WORLD_VARIABLE,
    Host,
    World,
    network_of,
)
from workbench.errors import ClusterError, MachineError

PID_SECONDS = 5.0
PID_TEXT = re.compile(r"[0-9]{1,7}\s*", re.ASCII)
LAUNCH_SECONDS = 30.0
HEAD_VARIABLE = "WORKBENCH_HEAD"
PATIENCE_VARIABLE = "WORKBENCH_PATIENCE"


class MultihostWorlds:
    """Starts and finds the worlds in threads, so that the supervisor never waits for a host.

    Args:
        login: Returns what a world's first host needs to log in to its hosts.
        path: The file that lists the worlds for a later supervisor.
        patience: Returns the seconds that a disconnected rank waits before it ends itself.
    """

    def __init__(
        self,
        nodes: RemoteHosts,
        login: Callable[[Sequence[Host]], Login],
        path: Path,
        patience: Callable[[], float],
    ) -> None:
        self._patience = patience
        self._nodes = nodes
        self._login = login
        self._path = path
        self._records: dict[int, WorldRecord] = {}
        self._used: set[str] = set()
        self._unwanted: set[int] = set()
        self._with_keys: set[int] = set()
        self._lock = threading.Lock()
        self._pool = ThreadPoolExecutor(thread_name_prefix="workbench-nodes")

    def __contains__(self, generation: int) -> bool:
        """Return whether a generation is a world on several hosts."""
        return generation in self._records

    def start(
        self,
        generation: int,
        world: World,
        mpi: Mpi,
        connection: str,
        ports: Sequence[int],
        cluster: str,
    ) -> Future[WorldHandles]:
        """Begin to start a world.

        Args:
            connection: Content of the engines' connection file.
            ports: Ports of this machine's loopback that every rank has to reach.
            cluster: Identifies this cluster's folders on nodes.
        """
        folder = f"{folder_of(cluster)}/g{generation}"
        # Recorded first: a later supervisor finds what is started in the next moment.
        record = WorldRecord(generation, world, folder)
        self._keep(record)
        self._with_keys.add(generation)

        def work() -> WorldHandles:
            numeric = _numeric(world.hosts)
            login = self._login(world.hosts)
            monitors = self._nodes.open(world.hosts, ports, forks_below(record.folder))
            # mpiexec passes what it is given on without encryption; this goes inside of ssh.
            self._nodes.write(world.hosts, connection_below(folder), connection)
            head = self._nodes.session(world.hosts[0])
            start = MultihostStart(
                mpi,
                world,
                generation,
                login,
                folder,
                numeric,
                self._patience(),
                python_of(head),
                self._nodes.forks(world.hosts),
            )
            distinct = len({monitor.host for monitor in monitors}) == len(monitors)
            launched = launch(start, head, distinct=distinct)
            if login.relayed and head is not None:
                others = {host.address: self._nodes.session(host) for host in world.hosts[1:]}
                relay(head, launched.folder, others)
            self._keep(replace(record, pid=launched.pid))
            return _build_handles(record, monitors, launched)

        return self._pool.submit(work)

    def take_up(self, ports: Sequence[int]) -> list[tuple[WorldRecord, Future[WorldHandles]]]:
        """Begin to find the worlds that a previous supervisor started."""
        self._records = {record.generation: record for record in read_records(self._path)}
        self._with_keys |= self._records.keys()
        return [
            (record, self._pool.submit(self._find, record, ports))
            for record in self._records.values()
        ]

    def forget(self, generation: int) -> None:
        """Remove the files of an ended world from its first host."""
        record = self._records.get(generation)
        if record is None:
            return
        self.forget_keys(generation)
        self._keep(record, away=True)
        self._pool.submit(self._nodes.discard, record.folder, record.world.hosts[:1])

    def forget_keys(self, generation: int) -> None:
        """Remove the controller's keys from a world's hosts, once all its ranks have read them."""
        if generation in self._with_keys:
            self._with_keys.remove(generation)
            record = self._records[generation]
            path = connection_below(record.folder)
            self._pool.submit(self._nodes.discard, path, record.world.hosts)

    def close(self) -> None:
        """Remove all files from all hosts, and wait for that."""
        for folder in self._used:
            self._pool.submit(self._nodes.discard, folder)
        self._pool.shutdown()

    def give_up(self, generation: int) -> None:
        """Wait no longer for the hosts of a world that is to end."""
        self._unwanted.add(generation)

    def _find(self, record: WorldRecord, ports: Sequence[int]) -> WorldHandles:
        self._nodes.wait_for(record.world.hosts, lambda: record.generation not in self._unwanted)
        monitors = self._nodes.open(record.world.hosts, ports, forks_below(record.folder))
        pid = record.pid or _find_pid(monitors[0], record.folder)
        return _build_handles(record, monitors, Launched(pid, record.folder))

    def _keep(self, record: WorldRecord, *, away: bool = False) -> None:
        with self._lock:
            self._used.add(str(Path(record.folder).parent))
            self._records[record.generation] = record
            if away:
                del self._records[record.generation]
            write_records(self._path, [*self._records.values()])


def folder_of(cluster: str) -> str:
    """Return a cluster's folder on nodes."""
    return f"{CLUSTER_FOLDER}-{cluster}"


def cluster_of(folder: str) -> str:
    """Return the cluster of a world's folder."""
    return PurePosixPath(folder).parent.name.removeprefix(f"{PurePosixPath(CLUSTER_FOLDER).name}-")


def forks_below(folder: str) -> str:
    """Return the folder of a cluster's fork server on nodes, of one with this world's folder."""
    return f"{PurePosixPath(folder).parent}/ranks"


def connection_below(folder: str) -> str:
    """Return the path of the file with the controller's keys, for a world with this folder."""
    return f"{folder}-connection.json"


def _build_handles(
    record: WorldRecord, monitors: tuple[ProcessMonitor, ...], launched: Launched
) -> WorldHandles:
    monitors[0].watch([launched.pid])
    crashes = f"{Path(record.folder).parent}/crashes"
    mark = mark_of(cluster_of(record.folder), record.generation)
    return WorldHandles(NodeMpiexec(monitors[0], launched), monitors, crashes, record.world, mark)


def _find_pid(monitor: ProcessMonitor, folder: str) -> int:
    """Return the id of a process whose starter was killed before it recorded the id."""
    deadline = time.monotonic() + PID_SECONDS
    while time.monotonic() < deadline:
        if (text := monitor.tail(f"{folder}/{PID}")) and PID_TEXT.fullmatch(text):
            return int(text)
        time.sleep(0.1)
    raise ClusterError("the start of the world was interrupted")


def _numeric(hosts: Sequence[Host]) -> tuple[str, ...]:
    """Return the addresses by which the hosts reach each other.

    Raises:
        ClusterError: A name is unknown here, or is a loopback address.
    """
    found = []
    for host in hosts:
        try:
            answers = socket.getaddrinfo(host.address, None, type=socket.SOCK_STREAM)
        except OSError as error:
            raise ClusterError(
                f"The name {host.address} is not known here", "correct it, or give its address."
            ) from error
        found.append(str(answers[0][4][0]))
        if len(hosts) > 1 and ipaddress.ip_address(found[-1]).is_loopback:
            raise ClusterError(
                f"{host.address} is a loopback address, which every host has",
                "name the host by its address in the network of the hosts.",
            )
    return tuple(found)


@dataclass(frozen=True)
class MultihostStart:
    """The parameters for starting a world on several hosts.

    Args:
        folder: On the first host, for the files of this world; relative to the home directory.
        numeric: The hosts' numeric addresses.
        patience: Seconds that a disconnected rank waits before it ends itself.
        python: The Python of the ranks, on every host.
        forks: Where every host forks its ranks.
    """

    mpi: Mpi
    world: World
    generation: int
    login: Login
    folder: str
    numeric: tuple[str, ...]
    patience: float
    python: str = sys.executable
    forks: Forks = PLAIN


def engine_ports(connection: str) -> tuple[int, ...]:
    """Return the ports in the engines' connection file."""
    found: list[int] = []
    for value in json.loads(connection).values():
        found += [item for item in _items(value) if type(item) is int]
    return tuple(dict.fromkeys(found))


def launch_of(start: MultihostStart, *, distinct: bool) -> Launch:
    """Return the process to launch on the first host.

    Args:
        distinct: Whether each host has its own host name.
    """
    mpi, world = mpi_beside(start.mpi, start.python), start.world
    used = [host for host in world.hosts if host.address in world.placement]
    agent: tuple[str, ...] = ("ssh", "-F", f"{FOLDER}/ssh_config")
    if start.login.relayed:
        agent = ("sh", f"{FOLDER}/{RELAY}")
    link = HostNetwork(agent, network_of(start.numeric), distinct)
    exported = {
        **rank_environment(mpi, world),
        GENERATION_VARIABLE: str(start.generation),
        WORLD_VARIABLE: mark_of(cluster_of(start.folder), start.generation),
        HEAD_VARIABLE: start.numeric[0],
        PATIENCE_VARIABLE: f"{start.patience:g}",
        CONNECTION_VARIABLE: connection_below(start.folder),
        "IPYTHONDIR": f"{PurePosixPath(start.folder).parent}/ipython",
    }
    if mpi.kind is MpiKind.OPENMPI:
        # The login on the hosts may be root, though this process is not.
        exported |= {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
    names = tuple(sorted(exported))
    several = link if len(used) > 1 else None
    options = mpiexec_arguments(mpi, world, f"{FOLDER}/hosts", names, several)
    command = [mpi.mpiexec, "-n", str(world.size), *options]
    engine = engine_program(nanny=False, patience=start.patience, python=start.python)
    command += through_stub(engine, start.forks.path, start.forks.stub)
    environment = {**exported, **(link_environment(mpi, world, link) if several else {})}
    return Launch(
        start.folder,
        (("hosts", hostfile_text(mpi, world)), *_login_files(start, used)),
        tuple(command),
        tuple(environment.items()),
    )


def launch(start: MultihostStart, head: Session | None, *, distinct: bool) -> Launched:
    """Start mpiexec on the first host, and wait until it has started.

    Raises:
        ClusterError: It could not be started.
        MachineError: The session is lost.
    """
    text = launch_text(launch_of(start, distinct=distinct))
    command = [start.python, "-m", "workbench.node.launch"]
    if head is None:
        done = _run_here(command, text)
    else:
        done = head.run(command, input=text, seconds=LAUNCH_SECONDS)
    if done.status != 0:
        reason = (done.errors.strip().splitlines() or ["no message"])[-1]
        raise ClusterError(
            f"{start.world.hosts[0].address} could not start the world ({reason})",
            f"check that this environment exists there, at {start.python}.",
        )
    try:
        return read_launched(done.output)
    except MachineError as error:
        raise ClusterError(
            f"{start.world.hosts[0].address} could not start the world ({error})",
            "check which program runs there.",
        ) from error


def _login_files(start: MultihostStart, hosts: Sequence[Host]) -> tuple[tuple[str, str], ...]:
    login = start.login
    if login.relayed:
        prefix = str(PurePosixPath(start.python).parent.parent)
        return ((RELAY, relay_script(FOLDER, prefix)),)
    key = f"{FOLDER}/key" if login.key else ""
    files = [
        ("ssh_config", agent_config(hosts, f"{FOLDER}/known_hosts", key)),
        ("known_hosts", known_hosts(login.known_hosts)),
    ]
    return (*files, ("key", login.key)) if login.key else tuple(files)


def _run_here(command: list[str], text: str) -> Completed:
    try:
        done = subprocess.run(
            command,
            input=text,
            capture_output=True,
            text=True,
            check=False,
            timeout=LAUNCH_SECONDS,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return Completed(1, "", str(error))
    return Completed(done.returncode, done.stdout, done.stderr)


def _items(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


@dataclass(frozen=True)
class WorldRecord:
    """A world on several hosts, as recorded for a later supervisor.

    Args:
        folder: On the first host, relative to the home directory.
        pid: The id of mpiexec; 0 while it is being started.
    """

    generation: Count
    world: World
    folder: str
    pid: Count = 0


def write_records(path: Path, records: Sequence[WorldRecord]) -> None:
    """Write all records, or remove the file if there are none."""
    if not records:
        path.unlink(missing_ok=True)
        return
    values = [asdict(record) for record in records]
    temporary = path.with_suffix(".new")
    handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with open(handle, "w", encoding="utf-8") as file:
        json.dump(values, file)
    os.replace(temporary, path)


def read_records(path: Path) -> list[WorldRecord]:
    """Return the records in a file; empty if it is missing or invalid."""
    try:
        return decode(list[WorldRecord], path.read_bytes())
    except (OSError, MachineError):
        return []
