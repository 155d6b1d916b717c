"""Say how the nodes of a world log in to each other."""

from __future__ import annotations

from workbench.cloud.hosts.listed_hosts import addresses_of
from workbench.cloud.rented.ssh_keys import KeyRing
from workbench.cluster.remote_hosts import Login
from workbench.core.world.known_hosts import address_of, line_for
from workbench.store.paths import cluster_directory
from workbench.store.trusted_hosts import trusted_lines


def login_of(cluster: str) -> Login:
    """Return what the head of a world needs to start daemons on the other nodes."""
    ring = KeyRing(cluster_directory(cluster))
    confirmed = trusted_lines(cluster)
    # Nodes reach each other by address; the user may have confirmed the key of a name.
    by_address = (
        line_for(line, address) for line in confirmed for address in addresses_of(address_of(line))
    )
    # One that the user confirmed for the same address counts more, and a rented node's is newer.
    lines = {line.split()[0]: line for line in (*by_address, *confirmed, *ring.lines())}
    return Login(tuple(lines.values()), ring.private)
