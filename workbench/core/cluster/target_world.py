"""Decide on which hosts a cluster's world runs, from the wish and the nodes that are ready."""

from __future__ import annotations

from dataclasses import replace

from workbench.core.cluster.model import ClusterWish
from workbench.core.fleet.model import FleetWish, Provider
from workbench.core.world.world import Host, World, plan_world

# Of these it is known before anything starts how many ranks they carry.
KNOWN = frozenset({Provider.THIS_MACHINE, Provider.HOSTS})
GBIT = 1e9 / 8
"""Bytes."""


def wished_world(
    fleet: FleetWish, local: tuple[Host, ...], ranks: int, oversubscribe: bool
) -> World:
    """Return the world that is asked for; one without hosts where they are not known yet.

    Args:
        local: This machine.
        ranks: 0 for all that other nodes than this machine carry.

    Raises:
        InputError: They carry fewer ranks.
    """
    if fleet.provider is Provider.THIS_MACHINE:
        return plan_world(local, ranks, oversubscribe)
    if fleet.provider not in KNOWN or fleet.nodes == 0:
        return World((), ranks, oversubscribe)
    hosts = _with_slots(fleet)[: fleet.nodes]
    return plan_world(hosts, ranks or sum(host.slots for host in hosts), oversubscribe)


def target_world(
    wish: ClusterWish,
    hosts: tuple[Host, ...],
    *,
    standing: frozenset[str] = frozenset(),
    coming: bool = False,
) -> World | None:
    """Return the world that is to stand now; None while that cannot be said yet.

    Args:
        hosts: The nodes that are ready, the head first; this machine for a cluster of its own.
        standing: Addresses of the hosts on which a world stands.
        coming: Whether more nodes are on their way; what stands on whole ground waits for them,
            and so does who has nothing yet: each change of members costs a new world.
    """
    fleet = wish.fleet
    if fleet.nodes == 0:
        return World((), 0)
    if len(hosts) < min(fleet.min_nodes, fleet.nodes):
        return None
    if coming and standing <= {host.address for host in hosts}:
        return None
    slots = sum(host.slots for host in hosts)
    # Nodes that are missing take their ranks with them; what was asked for stays asked for.
    size = wish.ranks or slots
    size = size if wish.oversubscribe else min(size, slots)
    return World(hosts, size, wish.oversubscribe, fleet.link * GBIT)


def _with_slots(fleet: FleetWish) -> tuple[Host, ...]:
    if not fleet.slots:
        return fleet.hosts
    return tuple(replace(host, slots=fleet.slots) for host in fleet.hosts)
