"""Monitor the processes of one host, local or remote, and read their output files."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import threading
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import Future
from pathlib import Path
from typing import Protocol

import psutil

from workbench.cluster.leftovers import LeftoverProcesses
from workbench.cluster.node_agent import agent_of, pass_over
from workbench.cluster.node_forks import RemoteForks
from workbench.core.node.agent_protocol import (
    MOST_TEXT_NBYTES,
    AskFacts,
    FileEnd,
    Gone,
    NodeFacts,
    ReadFile,
    Signal,
    Watch,
    WatchProcesses,
    encode_path,
)
from workbench.core.quote import one_line
from workbench.core.world.remote import Completed, Session, python_of
from workbench.errors import MachineError
from workbench.node.stream import Call
from workbench.node.warm_ranks import WarmRanks

FACTS_SECONDS = 20.0
AGAIN_SECONDS = 0.3
REST_SECONDS = 15.0
# How often an agent that ends soon is started again, for one world.
TRIES = 3
FAILING_SECONDS = 60.0
NOT_READ = "what its ranks wrote last is not read"


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
    def is_away(self) -> bool:
        """Whether the host does not answer this computer, though it may come back."""
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
    is_away = False

    def __init__(self, warm: WarmRanks | None = None, ends: ProcessEnds | None = None) -> None:
        self.warm = warm
        self._ends = ends
        self._known: dict[int, psutil.Process] = {}
        self._remains: dict[str, LeftoverProcesses] = {}

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
        remains = self._remains.setdefault(mark, LeftoverProcesses(mark, groups))
        done = remains.press(time.monotonic())
        if done:
            del self._remains[mark]
        return done

    def tail(self, path: str) -> str:
        """Return the end of a file, empty if it does not exist."""
        file = Path.home() / path
        try:
            with file.open("rb") as opened:
                opened.seek(max(0, opened.seek(0, os.SEEK_END) - MOST_TEXT_NBYTES))
                return opened.read(MOST_TEXT_NBYTES).decode(errors="replace")
        except FileNotFoundError:
            return ""

    def remove(self, path: str) -> None:
        """Remove a file."""
        (Path.home() / path).unlink(missing_ok=True)


class RemoteProcessMonitor:
    """Monitors another host through the agent there.

    Raises:
        MachineError: The host cannot be reached.

    Attributes:
        forks: The fork server there, if there is one.
    """

    def __init__(self, session: Session) -> None:
        self._session = session
        self.forks: RemoteForks | None = None
        self._name = session.host.address
        self._watched: set[int] = set()
        self._gone: set[int] = set()
        self._texts: dict[str, str] = {}
        self._asked: dict[str, float] = {}
        self._reads: dict[str, Call] = {}
        self._rests: dict[str, Future[Completed]] = {}
        self._failures, self._failed = 0, -FAILING_SECONDS
        self._lost = self._why_gone = ""
        self._call = agent_of(session).call(WatchProcesses())

    @property
    def session(self) -> Session:
        """The session with the host."""
        return self._session

    @property
    def host(self) -> str:
        """The host's own host name, once known."""
        return self._name

    @property
    def lost(self) -> str:
        """Why the host cannot be reached; empty while it can."""
        address = self._session.host.address
        where = address if self.host == address else f"{self.host} ({address})"
        if self._why_gone:
            return f"{where} is out of reach: {self._why_gone}"
        return f"{where} is no longer monitored: {self._lost}" if self._lost else ""

    @property
    def is_away(self) -> bool:
        """Whether the host does not answer this computer, though it may come back."""
        return not (self._session.is_open or self.lost)

    def lose(self, why: str) -> None:
        """Take the host for lost, for a reason that is a clause."""
        self._why_gone = self._why_gone or why

    def follow(self, session: Session) -> None:
        """Monitor the host in another session, since the one before was lost.

        Raises:
            MachineError: This one is lost too.
        """
        call = agent_of(session).call(WatchProcesses())
        self._session, self._call = session, call
        self._reads.clear()
        self._asked.clear()
        self._rests.clear()
        if self._watched:
            call.post(Watch(tuple(self._watched)))

    @property
    def statuses(self) -> Mapping[int, int]:
        """The wait status of each forked rank that has ended."""
        return self.forks.statuses if self.forks else {}

    def wait_for_facts(self) -> None:
        """Wait for the host's facts, which have its name.

        Raises:
            MachineError: They did not arrive in time.
        """
        agent = agent_of(self._session)
        try:
            facts = agent.ask(AskFacts(), FACTS_SECONDS)
        except MachineError as error:
            if not agent.is_heard:  # it may be any program
                agent.end(force=True)
            raise MachineError(
                f"{self._session.host.address} does not answer as a node "
                f"({one_line(str(error)).rstrip('.')})",
                "check that `python -m workbench.node.agent` runs there with this "
                "environment's Python.",
            ) from error
        if isinstance(facts, NodeFacts):
            self._name = facts.host

    def watch(self, pids: Sequence[int]) -> None:
        """Ask the host to report when a process ends."""
        new = tuple(pid for pid in pids if pid not in self._watched)
        self._watched.update(new)
        self._gone.difference_update(new)
        if new and self._session.is_open:
            self._call.post(Watch(new))

    def is_alive(self, pid: int) -> bool:
        """Return true until the host has reported the end of the process, which is watched."""
        self._hear()
        return pid not in self._gone and not self.lost

    def confirms(self, pid: int, launched: int, parent: int, mark: str) -> bool:
        """Return true: with a false answer the host harms itself alone."""
        return True

    def signal(self, pids: Sequence[int], number: signal.Signals) -> None:
        """Ask the host to send a signal."""
        self._hear()  # a new agent is to know the processes
        if self._session.is_open and not self.lost:
            self._call.post(Signal(tuple(pids), int(number)))

    def end_rest(self, mark: str, groups: Sequence[int]) -> bool:
        """Run a program there that ends them; processes with another environment are not found."""
        if self.lost:
            return True
        if mark not in self._rests:
            command = [python_of(self._session), "-m", "workbench.cluster.leftovers", mark]
            self._rests[mark] = _in_a_thread(
                lambda: self._session.run(command, seconds=REST_SECONDS)
            )
        return self._rests[mark].done()

    def tail(self, path: str) -> str | None:
        """Request a file's end from time to time, and return the last answer."""
        self._take_text(path)
        now = time.monotonic()
        if now - self._asked.get(path, 0.0) > AGAIN_SECONDS and path not in self._reads:
            self._asked[path] = now
            with pass_over(self._session, NOT_READ):
                self._reads[path] = agent_of(self._session).call(ReadFile(encode_path(path)))
        return "" if self.lost else self._texts.get(path)

    def remove(self, path: str) -> None:
        """Ask the host to remove a file."""
        self._texts.pop(path, None)
        self._asked.pop(path, None)
        if call := self._reads.pop(path, None):
            call.cancel()
        with pass_over(self._session, "a file of a rank's output is left there"):
            agent_of(self._session).call(ReadFile(encode_path(path), 0, remove=True))

    def end(self) -> None:
        """Watch nothing any more; the processes continue."""
        self._call.cancel()

    def _hear(self) -> None:
        if self.forks is not None:  # it knows the end of a rank before the agent looks again
            self._gone.update(self.forks.hear() & self._watched)
        try:
            for message in self._call.take():
                if isinstance(message, Gone):
                    self._gone.update(self._watched.intersection(message.pids))
                    self._watched.difference_update(message.pids)
        except MachineError as error:
            self._watch_again(one_line(str(error)))

    def _watch_again(self, why: str) -> None:
        """Have another agent watch the processes, which continue without one."""
        if self._lost or not self._session.is_open:
            return
        now = time.monotonic()
        self._failures = self._failures + 1 if now - self._failed < FAILING_SECONDS else 1
        self._failed = now
        if self._failures > TRIES:
            self._lost = why.rstrip(".")
            return
        try:
            self._call = agent_of(self._session).call(WatchProcesses())
        except MachineError as error:
            if self._session.is_open:
                self._lost = one_line(str(error)).rstrip(".")
            return
        if self._watched:
            self._call.post(Watch(tuple(self._watched)))

    def _take_text(self, path: str) -> None:
        call = self._reads.get(path)
        if call is not None and call.is_over:
            del self._reads[path]
            with pass_over(self._session, NOT_READ):
                if isinstance(end := call.result(), FileEnd):
                    self._texts[path] = end.text.decode(errors="replace")


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


class ProcessEnds:
    """Watches processes of this machine, each until it has ended.

    Args:
        begin: Called with a descriptor to wait for.
        end: Called with it before it is closed.
    """

    def __init__(self, begin: Callable[[int], None], end: Callable[[int], None]) -> None:
        self._begin = begin
        self._end = end
        self._descriptors: dict[int, int] = {}  # by process id; -1 once it has ended
        self._is_forgotten = False  # whether a process was found to have ended otherwise

    def __repr__(self) -> str:
        return f"<ProcessEnds of {len(self._descriptors)} processes>"

    def watch(self, pid: int) -> None:
        """Watch a process that runs, unless it is watched; nothing happens if it cannot be."""
        if pid in self._descriptors:
            return
        with contextlib.suppress(OSError):
            self._descriptors[pid] = os.pidfd_open(pid)
            self._begin(self._descriptors[pid])

    def take(self, readable: Collection[int]) -> bool:
        """Return whether a process has ended since the last call.

        Args:
            readable: The descriptors that can be read.
        """
        ended = [pid for pid, one in self._descriptors.items() if one in readable]
        for pid in ended:
            self._close(pid)
            self._descriptors[pid] = -1
        is_forgotten, self._is_forgotten = self._is_forgotten, False
        return bool(ended) or is_forgotten

    def forget(self, pid: int) -> None:
        """Watch it no longer: it is known to have ended, and its id may be used again."""
        self._is_forgotten |= self._descriptors.get(pid, -1) >= 0
        self._close(pid)
        self._descriptors.pop(pid, None)

    def _close(self, pid: int) -> None:
        descriptor = self._descriptors.get(pid, -1)
        if descriptor >= 0:
            self._end(descriptor)
            os.close(descriptor)
