"""Say for which cluster a provider is opened."""

from __future__ import annotations

from workbench.core.cluster.model import ClusterWish
from workbench.core.fleet.model import FleetWish
from workbench.core.fleet.node_provider import ClusterContext
from workbench.store import Store
from workbench.store.paths import cluster_directory, home_directory, owner_id
from workbench.store.trusted_hosts import trusted_lines


def cluster_context(wish: ClusterWish, store: Store) -> ClusterContext:
    """Return the context of a cluster; its wish is read from the store each time."""

    def present() -> FleetWish:
        now = store.cluster_wish(wish.name)
        return now.fleet if now is not None else wish.fleet

    def sent(token: str) -> str:
        found = store.fleets.read_sent(wish.name, token)
        return found[0] if found else ""

    return ClusterContext(
        wish.name,
        present,
        home_directory(),
        cluster_directory(wish.name),
        owner_id(),
        sent,
        lambda: trusted_lines(wish.name),
    )
