"""The hosts of a cluster's worlds: this machine, or a provider's nodes."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from workbench.cloud.hosts.local_session import LocalSession
from workbench.core.cluster.model import ClusterWish
from workbench.core.cluster.target_world import (
    out_of_reach,
    shortage,
    target_world,
    waits_for_more,
)
from workbench.core.fleet.model import FleetWish, Node, NodeState
from workbench.core.fleet.node_health import LEASE_SECONDS
from workbench.core.world.remote import PATIENCE_SECONDS, LostSession, Session
from workbench.core.world.world import Host, World
from workbench.requests.cluster import local_hosts
from workbench.supervisor.fleet.fleet_loop import Fleet, FleetKeeper, Load

# The state of a predecessor's worlds is unknown until their nodes are reached.
TAKE_UP_SECONDS = 30.0
LOOK_SECONDS = 0.05
HERE = "localhost"


class ClusterHosts:
    """This machine until a wish names a provider, and then that provider's nodes.

    Args:
        keeper_of: Makes the keeper of a wish's nodes; None if there is this machine alone.
    """

    def __init__(self, keeper_of: Callable[[ClusterWish], FleetKeeper] | None = None) -> None:
        self._keeper_of = keeper_of
        self._keeper: FleetKeeper | None = None
        self._fleet: Fleet | None = None
        self._place = FleetWish().place
        self._shortage = self._away = ""
        self._relays = False
        self._now = 0.0
        self.patience = PATIENCE_SECONDS
        """Seconds that ranks on other hosts wait for this computer."""

    def __repr__(self) -> str:
        return f"<ClusterHosts: {self._fleet or 'this machine'}>"

    @property
    def message(self) -> str:
        """One sentence for the user; empty if there is nothing to report."""
        message = self._fleet.message if self._fleet else ""
        return " ".join(filter(None, (self._shortage, self._away, message)))

    @property
    def there(self) -> tuple[Node, ...]:
        """The nodes that are not gone."""
        return self._fleet.nodes if self._fleet else ()

    @property
    def over(self) -> str:
        """Why all nodes are about to go though the cluster is wanted, as a clause; or empty."""
        return self._fleet.over if self._fleet else ""

    @property
    def is_here(self) -> bool:
        """Whether there is this machine alone, whose nodes need no care."""
        return self._keeper is None and not self._place.has_nodes

    @property
    def relays(self) -> bool:
        """Whether nodes cannot log in to each other."""
        return self._relays

    @property
    def replaces(self) -> bool:
        """Whether a node that is left is replaced by another one."""
        return self._place.is_charged

    def leave(self, address: str, why: str) -> None:
        """Release a node that cannot be used, and have another one in its place."""
        if self._keeper is not None and self.replaces:
            self._keeper.leave(address, why)

    @property
    def is_cleared(self) -> bool:
        """Whether no node is left of a cluster that is to be deleted."""
        return self._keeper is None or (self._fleet is not None and self._fleet.finished)

    def take_up(self, wish: ClusterWish, used: frozenset[str], clock: Callable[[], float]) -> None:
        """Wait, for a while, until the nodes of a predecessor's worlds are reached.

        Args:
            used: The addresses of these nodes.
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
        """Start what is due for the nodes, without waiting for it."""
        if self._keeper is None and wish.fleet.place.has_nodes and self._keeper_of:
            self._keeper = self._keeper_of(wish)
            self._place = wish.fleet.place
            self._relays = self._place.relays(wish.fleet)
        if not wish.fleet.place.lists_hosts or self._relays:
            self.patience = wish.fleet.setting("lease", LEASE_SECONDS)
        if self._keeper is not None:
            self._fleet = fleet = self._keeper.tick(wish, load, now)
            is_short = wish.up and load.busy and not load.whole and not fleet.over
            price = fleet.bill.price
            self._shortage = shortage(wish.fleet, len(fleet.hosts), price) if is_short else ""
            self._away = out_of_reach(fleet.away, len(load.whole), self.patience)
            self._now = now

    def target(self, wish: ClusterWish, load: Load) -> World | None:
        """Return the desired world; None while it is not known yet."""
        if not wish.fleet.place.has_nodes:
            return target_world(wish, local_hosts())
        if self._fleet is None:
            return None
        if self._fleet.over or load.over:
            return World((), 0)
        waits = waits_for_more(
            self._fleet.nodes,
            {host.address for host in self._fleet.hosts},
            load.used,
            starts_early=wish.fleet.starts_early,
            has_begun=load.busy,
            has_work=load.busy or load.waiting > 0,
            now=self._now,
        )
        return target_world(wish, self._fleet.hosts, waits=waits)

    def reach(self, host: Host) -> Session | None:
        """Return the session with a host; None for this machine."""
        session = self._keeper.session(host) if self._keeper else None
        if session is None and self._place.is_remote and host.address != HERE:
            return LostSession(host)  # pids of another machine mean nothing here
        return None if isinstance(session, LocalSession) else session

    def mark(self, host: Host) -> str:
        """Return the mark of a simulated node's processes; empty for other hosts."""
        session = self._keeper.session(host) if self._keeper else None
        return session.mark() if isinstance(session, LocalSession) else ""

    def reclaimed(self, addresses: Sequence[str]) -> list[str]:
        """Return the ids of those of these nodes that the provider takes back."""
        nodes = self._fleet.nodes if self._fleet else ()
        return [n.id for n in nodes if n.reclaimed and n.address in addresses]

    def why_gone(self, address: str) -> str:
        """Return why no process runs on a node any longer; empty if unknown."""
        return self._keeper.why_gone(address) if self._keeper else ""

    def close(self) -> None:
        """Close the sessions; the nodes are kept."""
        if self._keeper is not None:
            self._keeper.close()
            self._keeper = self._fleet = None
            self._place = FleetWish().place
