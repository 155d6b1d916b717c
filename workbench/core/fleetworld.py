"""Decide on which hosts a cluster's world stands, from what is wanted and which nodes are ready."""

from __future__ import annotations

from dataclasses import replace

from workbench.core.cluster import ClusterWish
from workbench.core.fleet import FleetWish, Place
from workbench.core.world import Host, World, plan_world
from workbench.errors import InputError

# Of these it is known before anything starts how many ranks they carry.
KNOWN = frozenset({Place.LOCAL, Place.HOSTS})
MAX_NODES = 512
GBIT = 1e9 / 8
"""Bytes."""


def check_fleet(fleet: FleetWish) -> FleetWish:
    """Return ``fleet``, or refuse it with the remedy.

    Raises:
        InputError: A bound will not do, or hosts are missing.
    """
    most = len(fleet.hosts) if fleet.place is Place.HOSTS else MAX_NODES
    if fleet.place is Place.HOSTS and not fleet.hosts:
        raise InputError("No hosts were given; write one on each line, as in 172.31.41.13 slots=1.")
    if not 0 <= fleet.nodes <= most:
        raise InputError(f"nodes must be from 0 to {most}, not {fleet.nodes}.")
    if fleet.nodes and not 1 <= fleet.least <= fleet.nodes:
        raise InputError(
            f"At least {fleet.least} of {fleet.nodes} nodes were asked for; "
            f"the least must be from 1 to {fleet.nodes}."
        )
    if fleet.most and not fleet.nodes <= fleet.most <= most:
        raise InputError(
            f"At most {fleet.most} nodes were asked for, but {fleet.nodes} to begin with; "
            f"the most must be from {fleet.nodes} to {most}."
        )
    for name, value in (("price", fleet.most_price), ("budget", fleet.budget)):
        if value < 0:
            raise InputError(f"The {name} must be at least $0, not ${value:g}.")
    return fleet


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
    if fleet.place is Place.LOCAL:
        return plan_world(local, ranks, oversubscribe)
    if fleet.place not in KNOWN or fleet.nodes == 0:
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
    if len(hosts) < min(fleet.least, fleet.nodes):
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
