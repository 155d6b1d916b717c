"""The hosts of a cluster's worlds: this machine, or a provider's nodes."""

from __future__ import annotations

import time
from collections.abc import Callable

from workbench.cloud.local_session import LocalSession
from workbench.core.cluster.model import ClusterWish
from workbench.core.cluster.target_world import target_world
from workbench.core.fleet.model import COMING, NodeState, Provider
from workbench.core.world.remote import LostSession, Session
from workbench.core.world.world import Host, World
from workbench.requests.wishes import local_hosts
from workbench.supervisor.fleet.keeper import FleetKeeper
from workbench.supervisor.fleet.provider import Fleet, Load

# Of a predecessor's worlds it is not known how they are before their nodes are reached.
TAKE_UP_SECONDS = 30.0
LOOK_SECONDS = 0.05
HERE = "localhost"
_ELSEWHERE = (Provider.HOSTS, Provider.EC2)


class Ground:
    """This machine until a wish names another place, and then that place's nodes.

    Args:
        keeper_of: Makes what keeps the nodes of a wish; None where there is this machine alone.
    """

    def __init__(self, keeper_of: Callable[[ClusterWish], FleetKeeper] | None = None) -> None:
        self._keeper_of = keeper_of
        self._keeper: FleetKeeper | None = None
        self._fleet: Fleet | None = None
        self._place = Provider.THIS_MACHINE

    def __repr__(self) -> str:
        return f"<Ground: {self._fleet or 'this machine'}>"

    @property
    def message(self) -> str:
        """One sentence for the reader; empty when there is nothing to say."""
        return self._fleet.message if self._fleet else ""

    @property
    def is_cleared(self) -> bool:
        """Whether no node is left of a cluster that nobody wants any longer."""
        return self._keeper is None or (self._fleet is not None and self._fleet.finished)

    def take_up(self, wish: ClusterWish, used: frozenset[str], clock: Callable[[], float]) -> None:
        """Wait, for a while, until the nodes are reached on which a predecessor's worlds stand.

        Args:
            used: The nodes' addresses.
        """
        load, deadline = Load(used=used), clock() + TAKE_UP_SECONDS
        self.keep(wish, load, clock())
        while wish.up and clock() < deadline and not all(map(self._is_reached, used)):
            time.sleep(LOOK_SECONDS)
            self.keep(wish, load, clock())

    def _is_reached(self, address: str) -> bool:
        if self._keeper is None or self._fleet is None:
            return True
        nodes = {node.address: node for node in self._fleet.nodes}
        leaves = address not in nodes or nodes[address].state is NodeState.LEAVING
        return leaves or self._keeper.session(Host(address, 1)) is not None

    def keep(self, wish: ClusterWish, load: Load, now: float) -> None:
        """Do what is due for the nodes; it does not wait for any."""
        if (
            self._keeper is None
            and wish.fleet.provider is not Provider.THIS_MACHINE
            and self._keeper_of
        ):
            self._keeper = self._keeper_of(wish)
            self._place = wish.fleet.provider
        if self._keeper is not None:
            self._fleet = self._keeper.tick(wish, load, now)

    def target(self, wish: ClusterWish, standing: frozenset[str]) -> World | None:
        """Return the world that is to stand now; None while that cannot be said yet.

        Args:
            standing: Addresses of the hosts on which a world stands.
        """
        if wish.fleet.provider is Provider.THIS_MACHINE:
            return target_world(wish, local_hosts())
        if self._fleet is None:
            return None
        coming = any(n.state in COMING and not n.failed for n in self._fleet.nodes)
        return target_world(wish, self._fleet.hosts, standing=standing, coming=coming)

    def reach(self, host: Host) -> Session | None:
        """Return the session with a host; None for this machine."""
        session = self._keeper.session(host) if self._keeper else None
        if session is None and self._place in _ELSEWHERE and host.address != HERE:
            return LostSession(host)  # it is not this machine, whose processes are others
        return None if isinstance(session, LocalSession) else session

    def mark(self, host: Host) -> str:
        """Return what tells the processes of a simulated node; nothing for other hosts."""
        session = self._keeper.session(host) if self._keeper else None
        return session.mark() if isinstance(session, LocalSession) else ""

    def why_gone(self, address: str) -> str:
        """Return why nothing runs on a node any longer; empty where that is not known."""
        return self._keeper.why_gone(address) if self._keeper else ""

    def close(self) -> None:
        """End the sessions; the nodes stay."""
        if self._keeper is not None:
            self._keeper.close()
            self._keeper = self._fleet = None
            self._place = Provider.THIS_MACHINE
