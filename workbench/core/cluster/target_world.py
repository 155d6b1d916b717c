"""Decide on which hosts a cluster's world runs, from the wish and the ready nodes."""

from __future__ import annotations

from dataclasses import replace

from workbench.core.cluster.model import ClusterWish
from workbench.core.fleet.model import FleetWish
from workbench.core.world.world import Host, World, plan_world

GBIT = 1e9 / 8
"""Bytes."""


def wished_world(
    fleet: FleetWish, local: tuple[Host, ...], ranks: int, oversubscribe: bool
) -> World:
    """Return the requested world; without hosts while these are unknown.

    Args:
        local: This machine.
        ranks: 0 for all that the other nodes carry.

    Raises:
        InputError: The hosts carry fewer ranks.
    """
    if not fleet.place.has_nodes:
        return plan_world(local, ranks, oversubscribe)
    if not fleet.place.lists_hosts or fleet.nodes == 0:
        return World((), ranks, oversubscribe)
    hosts = _with_slots(fleet)[: fleet.nodes]
    return plan_world(hosts, ranks or sum(host.slots for host in hosts), oversubscribe)


def target_world(
    wish: ClusterWish,
    hosts: tuple[Host, ...],
    *,
    waits: bool = False,
) -> World | None:
    """Return the desired world; None while it is unknown.

    Args:
        hosts: The ready nodes, the head first; this machine for a cluster without nodes.
        waits: Whether a healthy world, or a cluster without one, is to wait for nodes that are
            starting; see ``joining.waits_for_more``.
    """
    fleet = wish.fleet
    if fleet.nodes == 0:
        return World((), 0)
    if len(hosts) < min(fleet.min_nodes, fleet.nodes):
        return None
    if waits:
        return None
    slots = sum(host.slots for host in hosts)
    # Missing nodes reduce the number of ranks; the requested number does not change.
    size = wish.ranks or slots
    size = size if wish.oversubscribe else min(size, slots)
    world = World(hosts, size, wish.oversubscribe, fleet.place.link(fleet) * GBIT)
    # A world ends with each of its hosts, and one without ranks may leave at any time.
    used = {*world.placement}
    return replace(world, hosts=tuple(host for host in hosts if host.address in used))


def _with_slots(fleet: FleetWish) -> tuple[Host, ...]:
    if not fleet.slots:
        return fleet.hosts
    return tuple(replace(host, slots=fleet.slots) for host in fleet.hosts)
