"""Watch the processes of one host, this one or another, and read what they leave."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

import psutil

from workbench.core.session import RemoteProcess, Session
from workbench.core.warden import (
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
from workbench.errors import MachineError

FACTS_SECONDS = 20.0
AGAIN_SECONDS = 0.3


class Warden(Protocol):
    """Whoever watches one host. No method waits."""

    @property
    def host(self) -> str:
        """The host's own name of itself."""
        ...

    @property
    def lost(self) -> str:
        """Why the host is out of reach, in one sentence; empty while it is not."""
        ...

    def watch(self, pids: Sequence[int]) -> None:
        """Begin to watch processes, which is needed before anything is asked about them."""
        ...

    def is_alive(self, pid: int) -> bool:
        """Whether a process was there when last seen; none is on a host that is lost."""
        ...

    def signal(self, pids: Sequence[int], number: signal.Signals) -> None:
        """Send a signal to those that are still there."""
        ...

    def tail(self, path: str) -> str | None:
        """Return the end of a file as it was last seen; None while that is on its way.

        Args:
            path: Absolute, or relative to the home of whoever logs in there.
        """
        ...

    def remove(self, path: str) -> None:
        """Remove a file, if it is there."""
        ...


class LocalWarden:
    """Watches this machine."""

    lost = ""

    @property
    def host(self) -> str:
        """This machine's own name."""
        return socket.gethostname()

    def watch(self, pids: Sequence[int]) -> None:
        """Do nothing: any process can be asked about."""

    def is_alive(self, pid: int) -> bool:
        """Whether the process is there now."""
        try:
            return bool(psutil.Process(pid).status() != psutil.STATUS_ZOMBIE)
        except psutil.NoSuchProcess:
            return False

    def signal(self, pids: Sequence[int], number: signal.Signals) -> None:
        """Send a signal."""
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, number)

    def tail(self, path: str) -> str:
        """Return all of a file, empty when it is not there."""
        file = Path.home() / path
        return file.read_text(encoding="utf-8", errors="replace") if file.exists() else ""

    def remove(self, path: str) -> None:
        """Remove a file."""
        (Path.home() / path).unlink(missing_ok=True)


class RemoteWarden:
    """Asks the warden process of another host.

    Args:
        process: Runs ``workbench.node.warden`` there.
    """

    def __init__(self, session: Session, process: RemoteProcess) -> None:
        self._session = session
        self._process = process
        self._facts: NodeFacts | None = None
        self._watched: set[int] = set()
        self._gone: set[int] = set()
        self._texts: dict[str, str] = {}
        self._asked: dict[str, float] = {}

    @property
    def session(self) -> Session:
        """By which it is asked."""
        return self._session

    @property
    def host(self) -> str:
        """The host's own name, once it was told."""
        return self._facts.host if self._facts else self._session.host.address

    @property
    def lost(self) -> str:
        """Why the host is out of reach; empty while it is not."""
        address = self._session.host.address
        where = address if self.host == address else f"{self.host} ({address})"
        if not self._session.is_open:
            return f"{where} is out of reach: the ssh session with it was lost"
        if self._process.status is not None:
            return f"{where} is not watched any longer: its warden process ended"
        return ""

    def wait_for_facts(self, seconds: float = FACTS_SECONDS) -> None:
        """Wait until the host has told its name.

        Raises:
            MachineError: It did not.
        """
        deadline = time.monotonic() + seconds
        while self._facts is None:
            self._hear()
            if self._facts is None and (self.lost or time.monotonic() > deadline):
                raise MachineError(
                    f"{self._session.host.address} does not answer as a node; see that "
                    "`python -m workbench.node.warden` runs there with this environment's Python."
                )
            time.sleep(0.02)

    def watch(self, pids: Sequence[int]) -> None:
        """Have the host say when a process is gone."""
        new = tuple(pid for pid in pids if pid not in self._watched)
        self._watched.update(new)
        self._gone.difference_update(new)
        if new:
            self._ask(Watch(new))

    def is_alive(self, pid: int) -> bool:
        """Whether the host has not said that the process is gone."""
        self._hear()
        return pid not in self._gone and not self.lost

    def signal(self, pids: Sequence[int], number: signal.Signals) -> None:
        """Have the host send a signal."""
        self._ask(Signal(tuple(pids), int(number)))

    def tail(self, path: str) -> str | None:
        """Ask for a file's end from time to time, and return the last answer."""
        self._hear()
        now = time.monotonic()
        if now - self._asked.get(path, 0.0) > AGAIN_SECONDS:
            self._asked[path] = now
            self._ask(Read(path))
        return "" if self.lost else self._texts.get(path)

    def remove(self, path: str) -> None:
        """Have the host remove a file."""
        self._texts.pop(path, None)
        self._ask(Read(path, 0, remove=True))

    def end(self, *, force: bool = False) -> None:
        """End the process there."""
        self._process.end(force=force)

    def _ask(self, request: Watch | Signal | Read) -> None:
        if not self.lost:
            self._process.write(line_of(request))

    def _hear(self) -> None:
        for line in self._process.lines():
            event = read_event(line)
            if event is not None:
                self._note(event)

    def _note(self, event: Event) -> None:
        match event:
            case NodeFacts():
                self._facts = event
            case Gone(pids):
                self._gone.update(pids)
                self._watched.difference_update(pids)
            case Text(path, text):
                self._texts[path] = text
