"""The provider of a person's own hosts: they cost nothing, and are never switched off."""

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
    """The place of fixed hosts; see ``interface.Cloud``.

    Args:
        hosts: As the person named them; a name may be one of their ssh configuration's.
    """

    def __init__(self, hosts: Sequence[Host]) -> None:
        self._hosts = tuple(hosts)

    def __repr__(self) -> str:
        return f"<HostsCloud {len(self._hosts)} hosts>"

    def offers(self, needs: Needs, history_seconds: float = 0.0) -> tuple[Offer, ...]:
        """Return nothing: there is nothing to buy."""
        return ()

    def permissions(self, purchase: Purchase) -> tuple[Finding, ...]:
        """Return nothing: whether one may log in is found out by logging in."""
        return ()

    def buy(self, purchase: Purchase, user_data: str, tags: Sequence[tuple[str, str]]) -> None:
        """Refuse.

        Raises:
            CloudError: Always.
        """
        raise CloudError(
            f"There are {len(self._hosts)} hosts and no more can be bought; name more of them, "
            "or choose EC2 spot.",
            ErrorKind.CONFIGURATION,
        )

    def machines(self, cluster: str = "") -> tuple[Machine, ...]:
        """Return all hosts, as running: only a session can tell whether one is."""
        return tuple(
            Machine(
                id=host.address,
                state=MachineState.RUNNING,
                address=_numeric(host.address),
                reach=host.address,
                slots=host.slots,
            )
            for host in self._hosts
        )

    def end(self, ids: Sequence[str]) -> None:
        """Do nothing: a person's machine stays on."""

    def leftovers(self, cluster: str = "") -> tuple[Leftover, ...]:
        """Return nothing: nothing of ours is left on a place that was not bought."""
        return ()

    def clean(self, cluster: str) -> tuple[Leftover, ...]:
        """Do nothing, successfully."""
        return ()


def _numeric(name: str) -> str:
    """Return the address that ``name`` stands for, for others than this machine too.

    A name that only ssh's configuration knows stays as it is, and so does one that leads to a
    loopback: another node would find itself there.
    """
    try:
        found = socket.getaddrinfo(name, None, type=socket.SOCK_STREAM)
    except OSError:
        return name
    addresses = [str(answer[4][0]) for answer in found]
    usable = [a for a in addresses if not ipaddress.ip_address(a.partition("%")[0]).is_loopback]
    return usable[0] if usable else name
