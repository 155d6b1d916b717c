"""The provider of a user's own hosts: they cost nothing, and are never switched off."""

from __future__ import annotations

import ipaddress
import socket
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from workbench.cloud.hosts.local_session import LocalSession
from workbench.cloud.hosts.probe import contact_all, examine, is_here, measure_links
from workbench.cloud.hosts.ssh import open_session
from workbench.core.fleet.cloud_errors import ErrorKind
from workbench.core.fleet.model import Leftover, Machine, MachineState, Needs, Offer, Purchase
from workbench.core.fleet.node_provider import NodeProvider, Report
from workbench.core.node.findings import Finding
from workbench.core.node.host_findings import HostProbe
from workbench.core.world.remote import Session
from workbench.core.world.world import Host
from workbench.errors import CloudError


class ListedHosts(NodeProvider):
    """The provider of fixed hosts.

    Args:
        hosts: As the user listed them; a name may come from their ssh configuration.
        trusted: Returns the confirmed lines of known_hosts.
        nodes: Returns how many of them are wanted now; all by default.
    """

    def __init__(
        self,
        hosts: Sequence[Host],
        trusted: Callable[[], Sequence[str]] = tuple,
        nodes: Callable[[], int] | None = None,
    ) -> None:
        self._hosts = tuple(hosts)
        self._trusted = trusted
        self._nodes = nodes
        self._lock = threading.Lock()
        self._equipped: dict[str, Session] = {}
        self._links: Mapping[tuple[str, str], tuple[float, float]] = {}

    def __repr__(self) -> str:
        return f"<ListedHosts {len(self._hosts)} hosts>"

    def offers(self, needs: Needs, history_seconds: float = 0.0) -> tuple[Offer, ...]:
        """Return nothing: hosts are not bought."""
        return ()

    def buy(self, purchase: Purchase, user_data: str, tags: Sequence[tuple[str, str]]) -> None:
        """Raise an error.

        Raises:
            CloudError: Always.
        """
        raise CloudError(
            f"There are {len(self._hosts)} hosts and no more can be bought",
            ErrorKind.CONFIGURATION,
            remedy="list more of them, or choose EC2.",
        )

    def machines(self, cluster: str = "") -> tuple[Machine, ...]:
        """Return all hosts, as running: only a session shows whether one is."""
        return tuple(
            Machine(
                id=host.address,
                state=MachineState.RUNNING,
                address=next(iter(addresses_of(host.address)), host.address),
                reach=host.address,
                slots=host.slots,
            )
            for host in self._hosts
        )

    def end(self, ids: Sequence[str]) -> None:
        """Do nothing: a user's machine stays on."""

    def leftovers(self, cluster: str = "") -> tuple[Leftover, ...]:
        """Return nothing: no resource was created."""
        return ()

    def open(self, machine: Machine) -> Session:
        """Log in to a host by ssh; this machine needs none.

        Raises:
            MachineError: It is unreachable, or shows another key.
        """
        host = next(one for one in self._hosts if one.address == machine.id)
        if is_here(host.address):
            return LocalSession(Host(machine.address, host.slots), Path.home())
        return open_session(host, self._trusted())

    def equip(self, session: Session, report: Report) -> None:
        """Measure the network once the last of the wanted hosts is there.

        Raises:
            MachineError: The hosts do not reach each other.
        """
        with self._lock:
            self._equipped[session.host.address] = session
            there = {name: one for name, one in self._equipped.items() if one.is_open}
            wanted = len(self._hosts) if self._nodes is None else self._nodes()
            if len(there) >= max(2, min(wanted, len(self._hosts))):
                report("The network between the hosts is tried and measured.")
                self._links = measure_links(there, self._choose_addresses(there))

    def links(self) -> Mapping[tuple[str, str], tuple[float, float]]:
        """Return what was measured when the last host came."""
        return self._links

    def contact(self) -> tuple[HostProbe, ...]:
        """Probe each host; one with an unknown key is not logged in to."""
        return contact_all(self._hosts, self._trusted())

    def examine(self) -> tuple[Finding, ...]:
        """Return the problems that keep the hosts from forming one cluster."""
        return examine(self._hosts, self._trusted())

    def _choose_addresses(self, there: Mapping[str, Session]) -> Mapping[str, str]:
        """Return the address of each of these hosts for the others."""
        return {name: next(iter(addresses_of(name)), name) for name in there}


def addresses_of(name: str) -> list[str]:
    """Return the addresses of ``name`` that other machines can use too.

    There are none for a name that only ssh's configuration knows, nor for one of loopback: another
    node would reach itself by it.
    """
    try:
        found = socket.getaddrinfo(name, None, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError):
        return []
    addresses = [str(answer[4][0]) for answer in found]
    usable = [a for a in addresses if not ipaddress.ip_address(a.partition("%")[0]).is_loopback]
    return [*dict.fromkeys(usable)]
