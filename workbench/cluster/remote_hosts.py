"""The agents and forwarded ports that worlds need on other hosts."""

from __future__ import annotations

import contextlib
import shutil
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from workbench.cluster.process_monitor import (
    LocalProcessMonitor,
    ProcessMonitor,
    RemoteProcessMonitor,
)
from workbench.core.world.remote import Session, python_of
from workbench.core.world.world import Host
from workbench.errors import MachineError

MOST_AT_ONCE = 32
# After a lost connection the ports stay in use until that host's sshd has noticed.
BRING_SECONDS = 15.0
SHORT_SECONDS = 10.0
NODE_FOLDER = ".workbench"
"""On every node, below the home directory."""

Reach = Callable[[Host], Session | None]
"""Returns the session with a host; None for this machine."""

Mark = Callable[[Host], str]
"""Returns the NAME=value of the processes of a simulated node; empty for other hosts."""


@dataclass(frozen=True)
class Login:
    """What the ssh of a world's first host needs to start daemons on the others.

    Args:
        known_hosts: Exact lines, one for each host.
        key: A private key that all of them accept; empty if the first host's own keys are used.
    """

    known_hosts: tuple[str, ...] = ()
    key: str = ""

    def __repr__(self) -> str:
        return f"<Login to {len(self.known_hosts)} hosts>"


class Nodes:
    """Connections to the other hosts of a cluster.

    Args:
        reach: Looks up a session, without waiting.
    """

    def __init__(self, reach: Reach) -> None:
        self._reach = reach
        self._monitors: dict[str, RemoteProcessMonitor] = {}
        self._here = LocalProcessMonitor()
        self._locks: defaultdict[str, threading.Lock] = defaultdict(threading.Lock)

    def any_beyond(self, hosts: Iterable[Host]) -> bool:
        """Return whether one of ``hosts`` is another machine."""
        return any(self.session(host) is not None for host in hosts)

    def session(self, host: Host) -> Session | None:
        """Return the session with a host; None for this machine."""
        return self._reach(host)

    def open(self, hosts: Sequence[Host], ports: Sequence[int]) -> tuple[ProcessMonitor, ...]:
        """Forward ``ports`` of every host to this machine, and return the monitors.

        Waits for all hosts, in parallel.

        Raises:
            MachineError: A host cannot be reached, or refuses.
        """
        with ThreadPoolExecutor(max(1, min(MOST_AT_ONCE, len(hosts)))) as pool:
            return tuple(pool.map(lambda host: self._open(host, ports), hosts))

    def discard(self, folder: str, hosts: Iterable[Host] = ()) -> None:
        """Remove one of our folders from hosts, or from all that were used; waits for them.

        Args:
            folder: Relative to the home directory.
        """
        sessions = [self._reach(host) for host in hosts]
        for session in sessions or [None, *(w.session for w in self._monitors.values())]:
            if session is None:
                _remove_here(Path.home() / folder)
            else:
                remove(session, folder)

    def close(self) -> None:
        """End all agents; their owners close the sessions."""
        for monitor in self._monitors.values():
            monitor.end()
        self._monitors.clear()

    def _open(self, host: Host, ports: Sequence[int]) -> ProcessMonitor:
        session = self._reach(host)
        if session is None:
            return self._here
        if not session.is_open:
            raise MachineError(
                f"{host.address} is out of reach: the ssh session with it was lost",
                "check whether that machine is up.",
            )
        # Worlds that start at the same time share the agent; sshd limits the channels to ten.
        with self._locks[host.address]:
            monitor = self._monitor(host, session)
            _bring(session, ports)
        return monitor

    def _monitor(self, host: Host, session: Session) -> RemoteProcessMonitor:
        """Return the monitor of a host, which has sent its facts."""
        known = self._monitors.get(host.address)
        if known is not None and known.session is session and not known.lost:
            return known
        command = [python_of(session), "-m", "workbench.node.agent"]
        monitor = RemoteProcessMonitor(session, session.start(command))
        try:
            session.run(["mkdir", "-p", "-m", "700", NODE_FOLDER], seconds=SHORT_SECONDS)
            monitor.wait_for_facts()
        except MachineError:
            monitor.end(force=True)
            raise
        self._monitors[host.address] = monitor
        return monitor


def remove(session: Session, folder: str) -> None:
    """Remove one of our folders from a node, and its parent if that is empty then.

    A node that cannot be reached keeps it.

    Args:
        folder: Relative to the home directory.
    """
    script = 'rm -rf -- "$1" && rmdir -- "${1%/*}" 2> /dev/null; true'
    if session.is_open:
        with contextlib.suppress(MachineError):
            session.run(["sh", "-c", script, "sh", folder], seconds=SHORT_SECONDS)


def _remove_here(folder: Path) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    with contextlib.suppress(OSError):  # other folders are in it
        folder.parent.rmdir()


def _bring(session: Session, ports: Sequence[int]) -> None:
    deadline = time.monotonic() + BRING_SECONDS
    while True:
        try:
            session.bring(ports)
        except MachineError:
            if not session.is_open or time.monotonic() > deadline:
                raise
            time.sleep(0.5)
        else:
            return
