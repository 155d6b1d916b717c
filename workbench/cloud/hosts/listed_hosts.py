"""The provider of a user's own hosts: they cost nothing, and are never switched off."""

from __future__ import annotations

import ipaddress
import socket
from collections.abc import Sequence

from workbench.core.fleet.cloud_errors import ErrorKind
from workbench.core.fleet.model import Leftover, Machine, MachineState, Needs, Offer, Purchase
from workbench.core.node.findings import Finding
from workbench.core.world.world import Host
from workbench.errors import CloudError


class HostsCloud:
    """The provider of fixed hosts; see ``interface.Cloud``.

    Args:
        hosts: As the user listed them; a name may come from their ssh configuration.
    """

    def __init__(self, hosts: Sequence[Host]) -> None:
        self._hosts = tuple(hosts)

    def __repr__(self) -> str:
        return f"<HostsCloud {len(self._hosts)} hosts>"

    def offers(self, needs: Needs, history_seconds: float = 0.0) -> tuple[Offer, ...]:
        """Return nothing: hosts are not bought."""
        return ()

    def permissions(self, purchase: Purchase) -> tuple[Finding, ...]:
        """Return nothing: only a login shows whether it is permitted."""
        return ()

    def buy(self, purchase: Purchase, user_data: str, tags: Sequence[tuple[str, str]]) -> None:
        """Raise an error.

        Raises:
            CloudError: Always.
        """
        raise CloudError(
            f"There are {len(self._hosts)} hosts and no more can be bought",
            ErrorKind.CONFIGURATION,
            remedy="list more of them, or choose EC2 spot.",
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

    def clean(self, cluster: str) -> tuple[Leftover, ...]:
        """Do nothing; nothing was created."""
        return ()


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
