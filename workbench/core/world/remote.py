"""The interface of a session with a node, for every room that works on nodes."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from workbench.core.world.world import Host
from workbench.errors import MachineError


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
    """A command that goes on at a node."""

    @property
    def status(self) -> int | None:
        """Its exit status; None while it goes on. -1 when the session was lost."""
        ...

    def write(self, text: str) -> None:
        """Write to its standard input."""
        ...

    def lines(self) -> list[str]:
        """Return the lines of standard output that have come, without waiting."""
        ...

    def end(self, *, force: bool = False) -> None:
        """Have it end; its standard input is closed."""
        ...


class LostSession:
    """A session to a node that is out of reach: whatever is asked of it is refused."""

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
        """It does not stand."""
        return False

    def run(self, command: Sequence[str], *, input: str = "", seconds: float = 60.0) -> Completed:
        """Refuse."""
        raise self._lost()

    def start(self, command: Sequence[str]) -> RemoteProcess:
        """Refuse."""
        raise self._lost()

    def put(self, data: bytes, path: str, mode: int = 0o600) -> None:
        """Refuse."""
        raise self._lost()

    def bring(self, ports: Sequence[int]) -> None:
        """Refuse."""
        raise self._lost()

    def close(self) -> None:
        """There is nothing to end."""

    def _lost(self) -> MachineError:
        return MachineError(
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
        """Whether it stands; what is lost does not come back by itself."""
        ...

    def run(self, command: Sequence[str], *, input: str = "", seconds: float = 60.0) -> Completed:
        """Run a command and wait for its end.

        Raises:
            MachineError: The session is lost, or it took longer than ``seconds``.
        """
        ...

    def start(self, command: Sequence[str]) -> RemoteProcess:
        """Start a command that goes on."""
        ...

    def put(self, data: bytes, path: str, mode: int = 0o600) -> None:
        """Write a file, whole or not at all; folders on the way are made, for the owner alone."""
        ...

    def bring(self, ports: Sequence[int]) -> None:
        """Have ports of the node's own loopback lead to the same ports of this machine's.

        Raises:
            MachineError: A port is taken there.
        """
        ...

    def close(self) -> None:
        """End it, and what was started through it."""
        ...


def python_of(session: Session | None) -> str:
    """Return the path of the Python that has our environment on a node; None is this machine."""
    return (session.host.python if session is not None else "") or sys.executable
