"""The worlds of a cluster on several hosts: start them, find them again, clean up after them."""

from __future__ import annotations

import ipaddress
import re
import socket
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

from workbench.cluster.leftover_processes import mark_of
from workbench.cluster.mpi import Mpi
from workbench.cluster.mpiexec import NodeMpiexec
from workbench.cluster.mpiworld import Footing
from workbench.cluster.multihost_world import Start, launch
from workbench.cluster.process_monitor import ProcessMonitor
from workbench.cluster.remote_hosts import NODE_FOLDER, Login, Nodes
from workbench.cluster.world_record import WorldRecord, read_records, write_records
from workbench.core.node.launch_protocol import PID, Launched
from workbench.core.world.remote import python_of
from workbench.core.world.world import Host, World
from workbench.errors import ClusterError

PID_SECONDS = 5.0
PID_TEXT = re.compile(r"[0-9]{1,7}\s*", re.ASCII)


class Spreading:
    """What goes on at other hosts is done in threads here, so that nobody waits for it.

    Args:
        login: Says what a world's first host needs to log in to its hosts.
        path: Where the worlds are written down for a successor.
        patience: Seconds that a rank which is cut off waits before it ends itself.
    """

    def __init__(
        self,
        nodes: Nodes,
        login: Callable[[Sequence[Host]], Login],
        path: Path,
        patience: float,
    ) -> None:
        self._patience = patience
        self._nodes = nodes
        self._login = login
        self._path = path
        self._records: dict[int, WorldRecord] = {}
        self._used: set[str] = set()
        self._lock = threading.Lock()
        self._pool = ThreadPoolExecutor(thread_name_prefix="workbench-nodes")

    def __contains__(self, generation: int) -> bool:
        """Whether it is a world of this kind."""
        return generation in self._records

    def start(
        self,
        generation: int,
        world: World,
        mpi: Mpi,
        connection: str,
        ports: Sequence[int],
        cluster: str,
    ) -> Future[Footing]:
        """Begin to start a world.

        Args:
            connection: Text of the engines' connection file.
            ports: Of this machine's loopback; every rank has to reach them.
            cluster: What tells this cluster's folders on a node from those of others.
        """
        folder = f"{folder_of(cluster)}/g{generation}"
        # Written down first: a successor finds what is started in the next moment.
        record = WorldRecord(generation, world, folder)
        self._keep(record)

        def work() -> Footing:
            numeric = _numeric(world.hosts)
            login = self._login(world.hosts)
            monitors = self._nodes.open(world.hosts, ports)
            head = self._nodes.session(world.hosts[0])
            start = Start(
                mpi,
                world,
                generation,
                connection,
                login,
                folder,
                numeric,
                self._patience,
                python_of(head),
            )
            distinct = len({monitor.host for monitor in monitors}) == len(monitors)
            launched = launch(start, head, distinct=distinct)
            self._keep(replace(record, pid=launched.pid))
            return _footing(record, monitors, launched)

        return self._pool.submit(work)

    def take_up(self, ports: Sequence[int]) -> list[tuple[WorldRecord, Future[Footing]]]:
        """Begin to find the worlds that a predecessor started."""
        self._records = {record.generation: record for record in read_records(self._path)}
        return [
            (record, self._pool.submit(self._find, record, ports))
            for record in self._records.values()
        ]

    def forget(self, generation: int) -> None:
        """Remove what a world that has ended leaves on its first host."""
        record = self._records.get(generation)
        if record is None:
            return
        self._keep(record, away=True)
        self._pool.submit(self._nodes.discard, record.folder, record.world.hosts[:1])

    def close(self) -> None:
        """Tidy up on all hosts, and return when that is done."""
        for folder in self._used:
            self._pool.submit(self._nodes.discard, folder)
        self._pool.shutdown()

    def _find(self, record: WorldRecord, ports: Sequence[int]) -> Footing:
        monitors = self._nodes.open(record.world.hosts, ports)
        pid = record.pid or _find_pid(monitors[0], record.folder)
        return _footing(record, monitors, Launched(pid, record.folder))

    def _keep(self, record: WorldRecord, *, away: bool = False) -> None:
        with self._lock:
            self._used.add(str(Path(record.folder).parent))
            self._records[record.generation] = record
            if away:
                del self._records[record.generation]
            write_records(self._path, [*self._records.values()])


def folder_of(cluster: str) -> str:
    """Return where a cluster has its files on a node, relative to the home there."""
    return f"{NODE_FOLDER}/{cluster}"


def _footing(
    record: WorldRecord, monitors: tuple[ProcessMonitor, ...], launched: Launched
) -> Footing:
    monitors[0].watch([launched.pid])
    crashes = f"{Path(record.folder).parent}/crashes"
    mark = mark_of(Path(record.folder).parent.name, record.generation)
    return Footing(NodeMpiexec(monitors[0], launched), monitors, crashes, record.world, mark)


def _find_pid(monitor: ProcessMonitor, folder: str) -> int:
    """Return the process that was started just before its starter was killed."""
    deadline = time.monotonic() + PID_SECONDS
    while time.monotonic() < deadline:
        if (text := monitor.tail(f"{folder}/{PID}")) and PID_TEXT.fullmatch(text):
            return int(text)
        time.sleep(0.1)
    raise ClusterError("its start was cut off before it began")


def _numeric(hosts: Sequence[Host]) -> tuple[str, ...]:
    """Return the addresses by which the hosts reach each other.

    Raises:
        ClusterError: A name is unknown here, or means every host itself.
    """
    found = []
    for host in hosts:
        try:
            answers = socket.getaddrinfo(host.address, None, type=socket.SOCK_STREAM)
        except OSError as error:
            raise ClusterError(
                f"The name {host.address} is not known here; correct it, or give its address"
            ) from error
        found.append(str(answers[0][4][0]))
        if len(hosts) > 1 and ipaddress.ip_address(found[-1]).is_loopback:
            raise ClusterError(
                f"{host.address} means every host itself; name it by its address in their network"
            )
    return tuple(found)
