"""The agents and forwarded ports that worlds need on other hosts."""

from __future__ import annotations

import contextlib
import logging
import shutil
import subprocess
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath

from workbench.cluster.node_agent import agent_of, pass_over
from workbench.cluster.node_forks import PLAIN, RemoteForks, common_place
from workbench.cluster.process_monitor import (
    LocalProcessMonitor,
    ProcessMonitor,
    RemoteProcessMonitor,
)
from workbench.core.node.agent_protocol import Forks, NodeTried, TakeOver, TryNode, encode_path
from workbench.core.quote import one_line
from workbench.core.world.known_hosts import SSH_PORT
from workbench.core.world.remote import Absence, LostSession, Session, why_lost
from workbench.core.world.world import Host
from workbench.errors import HostLost, MachineError
from workbench.node.stream import Call
from workbench.node.warm_ranks import STUB, WarmRanks, are_wanted, start_forks

AGAIN_SECONDS = 2.0

log = logging.getLogger("workbench.supervisor")

MOST_AT_ONCE = 32
# After a lost connection the ports stay in use until that host's sshd has noticed.
BRING_SECONDS = 15.0
SHORT_SECONDS = 10.0
WAIT_SECONDS = 0.2
NOT_TRIED = "it cannot say which other nodes answer"
CLUSTER_FOLDER = "/tmp/workbench"
"""Begins a cluster's folder on every node. Hosts may share a home directory: below it, they would
replace each other's fork server, and one that leaves would remove the files of all."""

# Fails if another user has made the folder before.
OWN_FOLDER = 'mkdir -p -m 700 -- "$1" && test -O "$1" && ! test -L "$1" && chmod 700 -- "$1"'

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
        relayed: Whether there is no such login: this machine starts the daemons in its sessions.
    """

    known_hosts: tuple[str, ...] = ()
    key: str = ""
    relayed: bool = False

    def __repr__(self) -> str:
        return f"<Login to {len(self.known_hosts)} hosts>"


class RemoteHosts:
    """Connections to the other hosts of a cluster.

    Args:
        reach: Looks up a session, without waiting.
        patience: Returns the seconds that ranks wait for this computer.
    """

    def __init__(self, reach: Reach, patience: Callable[[], float]) -> None:
        self._reach = reach
        self._patience = patience
        self._absent = NodeReach(patience)
        self._returning: dict[str, Future[Session]] = {}
        self._ports: tuple[int, ...] = ()
        self._folder = ""
        self._monitors: dict[str, RemoteProcessMonitor] = {}
        self._forks: dict[str, RemoteForks] = {}
        self._news = threading.Event()  # from any fork server
        self._here = LocalProcessMonitor()
        self._warm: WarmRanks | None = None  # of this machine, in a world with others
        self._locks: defaultdict[str, threading.Lock] = defaultdict(threading.Lock)
        self._pool = ThreadPoolExecutor(MOST_AT_ONCE, "workbench-return")

    def any_beyond(self, hosts: Iterable[Host]) -> bool:
        """Return whether one of ``hosts`` is another machine."""
        return any(self.session(host) is not None for host in hosts)

    def session(self, host: Host) -> Session | None:
        """Return the session with a host; None for this machine."""
        return self._reach(host)

    def open(
        self, hosts: Sequence[Host], ports: Sequence[int], forks: str
    ) -> tuple[ProcessMonitor, ...]:
        """Forward ``ports`` of every host to this machine, and return the monitors.

        Waits for all hosts, in parallel.

        Args:
            forks: The folder of their fork servers, in the cluster's.

        Raises:
            MachineError: A host cannot be reached, or refuses.
        """
        self._ports, self._folder = tuple(ports), forks
        with ThreadPoolExecutor(max(1, min(MOST_AT_ONCE, len(hosts)))) as pool:
            return tuple(pool.map(lambda host: self._open(host, ports, forks), hosts))

    def wait_for(self, hosts: Sequence[Host], is_wanted: Callable[[], bool]) -> None:
        """Wait until there are sessions with hosts, or one is lost, or they are not wanted."""
        absent = NodeReach(self._patience)
        while is_wanted():
            sessions = {
                host.address: session
                for host in hosts
                if (session := self._reach(host)) is not None
            }
            if all(one.is_open for one in sessions.values()) or absent.look(sessions):
                return
            time.sleep(WAIT_SECONDS)

    def look(self) -> None:
        """Find lost hosts, and follow others into the sessions that were opened again."""
        sessions = {where: one.session for where, one in [*self._monitors.items()] if not one.lost}
        for where, why in self._absent.look(sessions).items():
            self._monitors[where].lose(why)
        for where, before in sessions.items():
            if before.is_open or self._monitors[where].lost:
                continue
            new = self._reach(Host(where, 1))
            if isinstance(new, LostSession):  # the host is no longer one of the cluster's
                self._monitors[where].lose("the ssh session with it was lost")
            elif new is not None and new.is_open:
                self._return(where, new)

    def _return(self, where: str, session: Session) -> None:
        """Have the ports of a host that answers again, and then monitor it."""
        opening = self._returning.get(where)
        if opening is None:
            self._returning[where] = self._pool.submit(self._reopen, where, session)
        elif opening.done():
            del self._returning[where]
            with pass_over(session, "its ranks are not followed yet"):
                self._monitors[where].follow(opening.result())
                log.info("%s answers again: its ranks are followed as before.", where)

    def _reopen(self, where: str, session: Session) -> Session:
        with self._locks[where]:
            _take_over(session, str(PurePosixPath(self._folder).parent))
            _bring(session, self._ports)
            self._keep_forks(Host(where, 1), session, self._folder)
            self._monitors[where].forks = self._forks.get(where)
        return session

    def forks(self, hosts: Sequence[Host]) -> Forks:
        """Return where all of these hosts fork ranks, which were opened before."""
        if not are_wanted():
            return PLAIN
        places: dict[str, Callable[[], Forks | None]] = {}
        for host in hosts:
            there = self._forks.get(host.address)
            here = self._own_place if self.session(host) is None else lambda: PLAIN
            places[host.address] = there.place if there else here
        return common_place(places, self._news)

    def end_forks(self, session: Session | None = None) -> None:
        """End the fork servers of all hosts, or of one; ranks that are left keep theirs."""
        ending = [
            address
            for address, forks in [*self._forks.items()]
            if session is None or forks.session is session
        ]
        with ThreadPoolExecutor(MOST_AT_ONCE) as pool:
            list(pool.map(RemoteForks.end, [self._forks.pop(address) for address in ending]))
        if session is None and self._warm is not None:
            self._warm.close()
            self._warm = self._here.warm = None

    def write(self, hosts: Sequence[Host], path: str, text: str) -> None:
        """Write a file that its owner alone can read on hosts, which were opened before.

        Raises:
            MachineError: A host cannot be reached, or cannot keep the file.
        """
        with ThreadPoolExecutor(max(1, min(MOST_AT_ONCE, len(hosts)))) as pool:
            list(pool.map(lambda host: _write(self._reach(host), host, path, text), hosts))

    def discard(self, folder: str, hosts: Iterable[Host] = ()) -> None:
        """Remove one of our folders or files from hosts, or from all hosts used; waits for them."""
        sessions = [self._reach(host) for host in hosts]
        for session in sessions or [None, *(w.session for w in self._monitors.values())]:
            if session is None:
                _remove_here(Path.home() / folder)
            else:
                remove(session, folder)

    def close(self) -> None:
        """Watch nothing any more; the sessions' owners close them, which ends the agents."""
        for monitor in self._monitors.values():
            monitor.end()
        self._monitors.clear()
        self._pool.shutdown(wait=False, cancel_futures=True)

    def _open(self, host: Host, ports: Sequence[int], forks: str) -> ProcessMonitor:
        session = self._reach(host)
        if session is None:
            with self._locks[host.address]:
                if self._warm is None:
                    self._warm = self._here.warm = start_forks(Path.home() / forks)
            return self._here
        if not session.is_open:
            raise HostLost(
                f"{host.address} is out of reach: the ssh session with it was lost",
                "check whether that machine is up.",
            )
        # Worlds that start at the same time share the agent; sshd limits the channels to ten.
        with self._locks[host.address]:
            self._keep_forks(host, session, forks)
            folder = str(PurePosixPath(forks).parent)
            monitor = self._monitor(host, session, folder)
            _take_over(session, folder)
            monitor.forks = self._forks.get(host.address)
            _bring(session, ports)
        return monitor

    def _own_place(self) -> Forks:
        if self._warm is None:
            return PLAIN
        self._warm.look()
        return Forks(self._warm.path, STUB)

    def _keep_forks(self, host: Host, session: Session, folder: str) -> None:
        """Have a fork server there, which imports what ranks need from now on."""
        known = self._forks.get(host.address)
        if not are_wanted() or (known and known.session is session and not known.is_lost):
            return
        self._forks.pop(host.address, None)
        with pass_over(session, "its ranks start by themselves"):
            self._forks[host.address] = RemoteForks(session, folder, self._news)

    def _monitor(self, host: Host, session: Session, folder: str) -> RemoteProcessMonitor:
        """Return the monitor of a host, which has sent its facts and has the cluster's folder."""
        known = self._monitors.get(host.address)
        if known is not None and known.session is session and not known.lost:
            return known
        monitor = RemoteProcessMonitor(session)
        try:
            make_folder(session, folder)
            monitor.wait_for_facts()
        except MachineError:
            monitor.end()
            raise
        self._monitors[host.address] = monitor
        return monitor


def _write(session: Session | None, host: Host, path: str, text: str) -> None:
    script = 'umask 077 && mkdir -p -- "${1%/*}" && cat > "$1.new" && mv -f -- "$1.new" "$1"'
    command = ["sh", "-c", script, "sh"]
    if session is None:
        done = subprocess.run(
            [*command, str(Path.home() / path)],
            input=text,
            capture_output=True,
            text=True,
            check=False,
            timeout=SHORT_SECONDS,
        )
        status, errors = done.returncode, done.stderr
    else:
        there = session.run([*command, path], input=text, seconds=SHORT_SECONDS)
        status, errors = there.status, there.errors
    if status != 0:
        reason = (errors.strip().splitlines() or ["no message"])[-1]
        raise MachineError(
            f"{host.address} cannot keep the keys of the connections ({one_line(reason)})",
            f"make {path.rpartition('/')[0]} there writable.",
        )


def make_folder(session: Session, folder: str) -> None:
    """Make a cluster's folder on a node, which only its user can read.

    Raises:
        MachineError: It cannot be made, or belongs to another user.
    """
    done = session.run(["sh", "-c", OWN_FOLDER, "sh", folder], seconds=SHORT_SECONDS)
    if done.status:
        raise MachineError(
            f"{folder} on {session.host.address} cannot be made, or belongs to another user",
            "look at it there, and remove it.",
        )


def remove(session: Session, folder: str) -> None:
    """Remove one of our folders or files from a node; one that cannot be reached keeps it."""
    if session.is_open:
        with contextlib.suppress(MachineError):
            session.run(["rm", "-rf", "--", folder], seconds=SHORT_SECONDS)


def _remove_here(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)


def _take_over(session: Session, folder: str) -> None:
    """End what a broken connection has left on a node: it holds the ports there."""
    agent_of(session).ask(TakeOver(encode_path(folder)), SHORT_SECONDS)


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


class NodeReach:
    """Follows the nodes of worlds. No method waits.

    Args:
        patience: Returns the seconds that a node's ranks wait for this computer.
    """

    def __init__(
        self, patience: Callable[[], float], now: Callable[[], float] = time.monotonic
    ) -> None:
        self._patience = patience
        self._now = now
        self._absences: dict[str, Absence] = {}
        self._calls: dict[tuple[str, str], Call] = {}
        self._asked: dict[tuple[str, str], float] = {}

    def __repr__(self) -> str:
        return f"<NodeReach: {len(self._absences)} nodes do not answer>"

    def look(self, sessions: Mapping[str, Session]) -> dict[str, str]:
        """Return which nodes are lost, and why, as clauses.

        Args:
            sessions: With all nodes, by their addresses for each other.
        """
        now = self._now()
        there = {where for where, one in sessions.items() if one.is_open and not one.is_silent}
        for where in self._absences.keys() & there:
            del self._absences[where]
        self._calls = {
            (where, other): call
            for (where, other), call in self._calls.items()
            if where in self._absences and other in there
        }
        found = {}
        for where in sessions.keys() - there:
            absence = self._update(where, sessions, there, now)
            self._absences[where] = absence
            if why := why_lost(absence, self._patience(), now):
                found[where] = why
        return found

    def _update(
        self, where: str, sessions: Mapping[str, Session], there: set[str], now: float
    ) -> Absence:
        before = self._absences.get(where) or Absence(now)
        answers: dict[str, bool | None] = {}
        for other in there:
            key = where, other
            answers[other] = before.answers.get(other)
            call = self._calls.get(key)
            if call is not None and call.is_over:
                del self._calls[key]
                with pass_over(sessions[other], NOT_TRIED):
                    if isinstance(tried := call.result(), NodeTried):
                        answers[other] = tried.answers
            if (
                key not in self._calls
                and now - self._asked.get(key, -AGAIN_SECONDS) >= AGAIN_SECONDS
            ):
                self._asked[key] = now
                port = sessions[where].host.port or SSH_PORT
                with pass_over(sessions[other], NOT_TRIED):
                    self._calls[key] = agent_of(sessions[other]).call(TryNode(where, port))
        closed = before.closed if sessions[where].is_open else min(before.closed, now)
        return replace(before, closed=closed, answers=answers)
