"""The interface of a session with a host, for every part that works on nodes."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from workbench.core.units import duration
from workbench.core.world.world import Host
from workbench.errors import HostLost

PATIENCE_SECONDS = 600.0
"""How long ranks on hosts without a lease wait for this computer."""


@dataclass(frozen=True)
class Completed:
    """A command that has ended on a node.

    Args:
        status: Its exit status; negative for a signal.
    """

    status: int
    output: str
    errors: str


class RemoteProcess(Protocol):
    """A running command on a node."""

    @property
    def status(self) -> int | None:
        """Its exit status; None while it runs, -1 if the session was lost."""
        ...

    @property
    def errors(self) -> str:
        """The end of its standard error, or why its output is no longer read."""
        ...

    def write(self, data: bytes) -> None:
        """Write to its standard input."""
        ...

    def listen(self, hear: Callable[[bytes], None]) -> None:
        """Pass its standard output on as it comes, and nothing once it has ended.

        Args:
            hear: Called on the thread that reads, which must not wait; with no bytes at the end.
        """
        ...

    def lines(self) -> list[str]:
        """Return the lines of standard output that have come, without waiting."""
        ...

    def end(self, *, force: bool = False) -> None:
        """End it; its standard input is closed."""
        ...


class LostSession:
    """A session with an unreachable node: every request raises an error."""

    def __init__(self, host: Host) -> None:
        self._host = host

    def __repr__(self) -> str:
        return f"<LostSession {self._host.address}>"

    @property
    def host(self) -> Host:
        """The node."""
        return self._host

    @property
    def is_open(self) -> bool:
        """False, always."""
        return False

    @property
    def is_silent(self) -> bool:
        """True, always."""
        return True

    def run(self, command: Sequence[str], *, input: str = "", seconds: float = 60.0) -> Completed:
        """Raise an error."""
        raise self._lost()

    def start(self, command: Sequence[str]) -> RemoteProcess:
        """Raise an error."""
        raise self._lost()

    def put(self, data: bytes, path: str, mode: int = 0o600) -> None:
        """Raise an error."""
        raise self._lost()

    def bring(self, ports: Sequence[int]) -> None:
        """Raise an error."""
        raise self._lost()

    def close(self) -> None:
        """Do nothing."""

    def _lost(self) -> HostLost:
        return HostLost(
            f"{self._host.address} cannot be reached: there is no session with it",
            "check whether that machine is up and can be reached.",
        )


class Session(Protocol):
    """A verified ssh session to one node."""

    @property
    def host(self) -> Host:
        """The node."""
        ...

    @property
    def is_open(self) -> bool:
        """Whether it is open; a lost session is not reopened."""
        ...

    @property
    def is_silent(self) -> bool:
        """Whether the node has sent nothing for longer than usual."""
        ...

    def run(self, command: Sequence[str], *, input: str = "", seconds: float = 60.0) -> Completed:
        """Run a command and wait for its end.

        Raises:
            MachineError: The session is lost, or it took longer than ``seconds``.
        """
        ...

    def start(self, command: Sequence[str]) -> RemoteProcess:
        """Start a command, and return while it runs."""
        ...

    def put(self, data: bytes, path: str, mode: int = 0o600) -> None:
        """Write a file atomically; missing folders are created with access for the owner alone."""
        ...

    def bring(self, ports: Sequence[int]) -> None:
        """Forward ports of the node's loopback to the same ports of this machine.

        Raises:
            MachineError: A port is in use there.
        """
        ...

    def close(self) -> None:
        """Close it, and end what was started through it."""
        ...


def python_of(session: Session | None) -> str:
    """Return the path of the Python with our environment on a node; None is this machine."""
    return (session.host.python if session is not None else "") or sys.executable


@dataclass(frozen=True)
class Absence:
    """A node that does not answer.

    Args:
        since: When it began; moments are seconds on one clock.
        closed: When the session with it was lost; infinite while that is only silent.
        answers: Whether each other node that answers this computer reaches it, by address; None
            while that is being found out.
    """

    since: float
    closed: float = math.inf
    answers: Mapping[str, bool | None] = field(default_factory=dict)


def why_lost(absence: Absence, patience: float, now: float) -> str:
    """Return why a node is lost, as a clause; empty while it may come back.

    It is lost if others answer this computer, and none of them reaches it. Where none answers, and
    where one reaches it, the link is broken: its ranks train on, for as long as they wait.

    Args:
        patience: Seconds that its ranks wait for this computer.
    """
    if now < absence.closed:
        return ""
    if now - absence.closed > patience:
        return f"it has not answered for {duration(patience)}"
    found = [*absence.answers.values()]
    if found and not any(one is None or one for one in found):
        return "the ssh session with it was lost"
    return ""
