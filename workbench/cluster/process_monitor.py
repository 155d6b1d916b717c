"""Monitor the processes of one host, local or remote, and read their output files."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from pathlib import Path
from typing import Protocol

import psutil

from workbench.cluster.leftover_processes import Remains
from workbench.cluster.node_forks import RemoteForks
from workbench.cluster.process_ends import ProcessEnds
from workbench.cluster.warm_ranks import WarmRanks
from workbench.core.node.agent_protocol import (
    MOST_NBYTES,
    Event,
    Gone,
    NodeFacts,
    Read,
    Signal,
    Text,
    Watch,
    line_of,
    read_event,
)
from workbench.core.world.remote import Completed, RemoteProcess, Session, python_of
from workbench.errors import MachineError

FACTS_SECONDS = 20.0
AGAIN_SECONDS = 0.3
REST_SECONDS = 15.0


class ProcessMonitor(Protocol):
    """Monitors one host. No method waits."""

    @property
    def host(self) -> str:
        """The host's own host name."""
        ...

    @property
    def lost(self) -> str:
        """Why the host cannot be reached, in one sentence; empty while it can."""
        ...

    @property
    def statuses(self) -> Mapping[int, int]:
        """The wait status of each forked rank that has ended, by process id, the first first."""
        ...

    def watch(self, pids: Sequence[int]) -> None:
        """Begin to watch processes, as required before other calls about them."""
        ...

    def is_alive(self, pid: int) -> bool:
        """Return whether a process was running when last seen; false on a lost host."""
        ...

    def confirms(self, pid: int, launched: int, parent: int, mark: str) -> bool:
        """Return whether an engine's description of its process is true.

        Args:
            launched: What was launched for it: its stub where it was forked, and else itself.
            parent: The parent of that one; 0 if it was not requested.
            mark: A NAME=value of the environment that both were started with.
        """
        ...

    def signal(self, pids: Sequence[int], number: signal.Signals) -> None:
        """Send a signal to those that are still running."""
        ...

    def end_rest(self, mark: str, groups: Sequence[int]) -> bool:
        """End the remaining processes of a world; true once none is left, or the host is lost.

        Args:
            mark: Of the world, whose ranks have all ended.
            groups: Process groups that they led.
        """
        ...

    def tail(self, path: str) -> str | None:
        """Return the end of a file as last seen; None while it is being fetched.

        Args:
            path: Absolute, or relative to the home directory there.
        """
        ...

    def remove(self, path: str) -> None:
        """Remove a file, if it exists."""
        ...


class LocalProcessMonitor:
    """Monitors this machine.

    Args:
        warm: The fork server of its ranks, if there is one.
        ends: Notices the end of each process that was alive.
    """

    lost = ""

    def __init__(self, warm: WarmRanks | None = None, ends: ProcessEnds | None = None) -> None:
        self.warm = warm
        self._ends = ends
        self._known: dict[int, psutil.Process] = {}
        self._remains: dict[str, Remains] = {}

    @property
    def host(self) -> str:
        """This machine's own host name."""
        return socket.gethostname()

    @property
    def statuses(self) -> Mapping[int, int]:
        """The wait status of each forked rank that has ended."""
        if self.warm is None:
            return {}
        self.warm.look()
        return self.warm.statuses

    def watch(self, pids: Sequence[int]) -> None:
        """Do nothing: any process can be examined."""

    def is_alive(self, pid: int) -> bool:
        """Return whether the process is running now."""
        # Many are examined many times a second, and a known one costs half of a new one.
        try:
            process = self._known.get(pid) or self._known.setdefault(pid, psutil.Process(pid))
            if process.status() != psutil.STATUS_ZOMBIE:
                if self._ends is not None:
                    self._ends.watch(pid)
                return True
        except psutil.NoSuchProcess:
            pass
        self._known.pop(pid, None)
        if self._ends is not None:
            self._ends.forget(pid)
        return False

    def confirms(self, pid: int, launched: int, parent: int, mark: str) -> bool:
        """Return whether it is true: a remote engine could name any process of this machine."""
        name, _, value = mark.partition("=")
        try:
            are_ours = [psutil.Process(one).environ().get(name) == value for one in (pid, launched)]
            return all(are_ours) and parent in (0, psutil.Process(launched).ppid())
        except psutil.Error:
            return False

    def signal(self, pids: Sequence[int], number: signal.Signals) -> None:
        """Send a signal."""
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, number)

    def end_rest(self, mark: str, groups: Sequence[int]) -> bool:
        """End the remaining processes of a world."""
        remains = self._remains.setdefault(mark, Remains(mark, groups))
        done = remains.press(time.monotonic())
        if done:
            del self._remains[mark]
        return done

    def tail(self, path: str) -> str:
        """Return the end of a file, empty if it does not exist."""
        file = Path.home() / path
        try:
            with file.open("rb") as opened:
                opened.seek(max(0, opened.seek(0, os.SEEK_END) - MOST_NBYTES))
                return opened.read(MOST_NBYTES).decode(errors="replace")
        except FileNotFoundError:
            return ""

    def remove(self, path: str) -> None:
        """Remove a file."""
        (Path.home() / path).unlink(missing_ok=True)


class RemoteProcessMonitor:
    """Monitors another host through its agent process.

    Args:
        process: The running ``workbench.node.agent`` there.

    Attributes:
        forks: The fork server there, if there is one.
    """

    def __init__(self, session: Session, process: RemoteProcess) -> None:
        self._session = session
        self._process = process
        self.forks: RemoteForks | None = None
        self._facts: NodeFacts | None = None
        self._watched: set[int] = set()
        self._gone: set[int] = set()
        self._texts: dict[str, str] = {}
        self._asked: dict[str, float] = {}
        self._rests: dict[str, Future[Completed]] = {}

    @property
    def session(self) -> Session:
        """The session with the host."""
        return self._session

    @property
    def host(self) -> str:
        """The host's own host name, once known."""
        return self._facts.host if self._facts else self._session.host.address

    @property
    def lost(self) -> str:
        """Why the host cannot be reached; empty while it can."""
        address = self._session.host.address
        where = address if self.host == address else f"{self.host} ({address})"
        if not self._session.is_open:
            return f"{where} is out of reach: the ssh session with it was lost"
        if self._process.status is not None:
            return f"{where} is no longer monitored: its agent process ended"
        return ""

    @property
    def statuses(self) -> Mapping[int, int]:
        """The wait status of each forked rank that has ended."""
        return self.forks.statuses if self.forks else {}

    def wait_for_facts(self, seconds: float = FACTS_SECONDS) -> None:
        """Wait for the host's facts, which have its name.

        Raises:
            MachineError: They did not arrive in time.
        """
        deadline = time.monotonic() + seconds
        while self._facts is None:
            self._hear()
            if self._facts is None and (self.lost or time.monotonic() > deadline):
                raise MachineError(
                    f"{self._session.host.address} does not answer as a node",
                    "check that `python -m workbench.node.agent` runs there with this "
                    "environment's Python.",
                )
            time.sleep(0.02)

    def watch(self, pids: Sequence[int]) -> None:
        """Ask the host to report when a process ends."""
        new = tuple(pid for pid in pids if pid not in self._watched)
        self._watched.update(new)
        self._gone.difference_update(new)
        if new:
            self._ask(Watch(new))

    def is_alive(self, pid: int) -> bool:
        """Return true until the host has reported the end of the process, which is watched."""
        self._hear()
        return pid not in self._gone and not self.lost

    def confirms(self, pid: int, launched: int, parent: int, mark: str) -> bool:
        """Return true: with a false answer the host harms itself alone."""
        return True

    def signal(self, pids: Sequence[int], number: signal.Signals) -> None:
        """Ask the host to send a signal."""
        self._ask(Signal(tuple(pids), int(number)))

    def end_rest(self, mark: str, groups: Sequence[int]) -> bool:
        """Run a program there that ends them; processes with another environment are not found."""
        if self.lost:
            return True
        if mark not in self._rests:
            command = [python_of(self._session), "-m", "workbench.cluster.leftover_processes", mark]
            self._rests[mark] = _in_a_thread(
                lambda: self._session.run(command, seconds=REST_SECONDS)
            )
        return self._rests[mark].done()

    def tail(self, path: str) -> str | None:
        """Request a file's end from time to time, and return the last answer."""
        self._hear()
        now = time.monotonic()
        if now - self._asked.get(path, 0.0) > AGAIN_SECONDS:
            self._asked[path] = now
            self._ask(Read(path))
        return "" if self.lost else self._texts.get(path)

    def remove(self, path: str) -> None:
        """Ask the host to remove a file."""
        self._texts.pop(path, None)
        self._asked.pop(path, None)
        self._ask(Read(path, 0, remove=True))

    def end(self, *, force: bool = False) -> None:
        """End the agent process."""
        self._process.end(force=force)

    def _ask(self, request: Watch | Signal | Read) -> None:
        if not self.lost:
            self._process.write(line_of(request))

    def _hear(self) -> None:
        if self.forks is not None:  # it knows the end of a rank before the agent looks again
            self._gone.update(self.forks.hear() & self._watched)
        for line in self._process.lines():
            event = read_event(line)
            if event is not None:
                self._note(event)

    def _note(self, event: Event) -> None:
        match event:
            case NodeFacts():
                self._facts = event
            case Gone(pids):
                self._gone.update(self._watched.intersection(pids))
                self._watched.difference_update(pids)
            case Text(path, text) if path in self._asked:
                self._texts[path] = text[-MOST_NBYTES:]


def _in_a_thread(work: Callable[[], Completed]) -> Future[Completed]:
    """Run ``work`` in a daemon thread; an exception sets the future's error."""
    future: Future[Completed] = Future()

    def do() -> None:
        try:
            future.set_result(work())
        except MachineError as error:
            future.set_exception(error)

    threading.Thread(target=do, name="workbench-rest", daemon=True).start()
    return future
