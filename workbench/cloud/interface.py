"""What is asked of a place that lends nodes, and of a session with a node; fakes answer alike."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from workbench.core.diagnosis import Finding
from workbench.core.fleet import Leftover, Machine, Needs, Offer, Purchase
from workbench.core.world import Host


class Cloud(Protocol):
    """A place that lends nodes. Calls take as long as the place takes: use a thread."""

    def offers(self, needs: Needs, history_seconds: float = 0.0) -> tuple[Offer, ...]:
        """Return all types that fit, one for each zone that has them, cheapest first.

        Args:
            history_seconds: How far back the prices go.

        Raises:
            CloudRefused: The place does not answer, or not to us.
        """
        ...

    def permissions(self, purchase: Purchase) -> tuple[Finding, ...]:
        """Try every call that ``purchase`` and its deletion need, without doing anything."""
        ...

    def buy(self, purchase: Purchase, user_data: str, tags: Sequence[tuple[str, str]]) -> None:
        """Ask for the nodes; the same token again asks for nothing more.

        Args:
            user_data: What a node does when it boots, in cloud-init's form.
            tags: Borne by the nodes, and all that belongs to them, from the first moment.

        Raises:
            CloudRefused: Nothing was bought; ``kind`` says what may help.
        """
        ...

    def machines(self, cluster: str = "") -> tuple[Machine, ...]:
        """Return the machines of ``cluster``, or all that are ours, also those just gone.

        Raises:
            CloudRefused: The place does not answer, or not to us.
        """
        ...

    def end(self, ids: Sequence[str]) -> None:
        """Begin to end machines; one that is gone already is as good.

        Raises:
            CloudRefused: The place does not answer, or not to us.
        """
        ...

    def leftovers(self, cluster: str = "") -> tuple[Leftover, ...]:
        """Return all that bears our tags, costs or not, machines that are gone left out."""
        ...

    def clean(self, cluster: str) -> tuple[Leftover, ...]:
        """Delete what belongs to ``cluster``, in order, as far as it goes now.

        Returns:
            What is left: to be asked again until there is nothing.
        """
        ...


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
