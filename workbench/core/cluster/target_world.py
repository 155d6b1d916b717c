"""Decide on which hosts a cluster's world runs, from the wish and the ready nodes.

Each change of members is a new world, and a run pauses while it moves there. So moving for
each node as it comes costs pauses, and waiting for the last one costs the time of those that are
ready. It is unknown how long a node still takes. The rule is that of any rent-or-buy decision with
an unknown end: nodes that are ready wait for others until their idle time has cost as much as the
move that the wait saves. That costs at most twice as much as knowing would have. ::

    no world yet      wait for all nodes; with an explicit minimum, or for a run that has begun,
                      until idle node-seconds >= MOVE_SECONDS x nodes that would train
    a healthy world   the same, with the nodes that train now and would pause; without a run
                      there is no hurry, and all are waited for
    a world that lost a node   no wait: the next world starts on what is left
    a world on nodes with a notice   these train on until nodes are ready for all of them, unless
                      the next world would have more nodes
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace

from workbench.core.cluster.model import ClusterWish
from workbench.core.fleet.model import COMING, FleetWish, Node, NodeState
from workbench.core.fleet.node_health import MOVE_SECONDS
from workbench.core.units import count, duration, hourly
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
            starting; see ``waits_for_more``.
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


def waits_for_more(
    nodes: Sequence[Node],
    hosts: Collection[str],
    standing: Collection[str],
    *,
    starts_early: bool,
    has_begun: bool,
    has_work: bool,
    now: float,
) -> bool:
    """Return whether a world is to wait for nodes that are starting, or are still to be bought.

    Args:
        nodes: All nodes that are not gone.
        hosts: Addresses of those that can carry a world now.
        standing: Addresses of the hosts that have a world now.
        starts_early: Whether the user asked to start with fewer nodes.
        has_begun: Whether a run is active, or waits to continue.
        has_work: Whether any run is active or waits.
        now: Epoch seconds, as in the nodes' records.
    """
    noticed = {node.address for node in nodes if node.reclaimed and node.state is NodeState.JOINED}
    next_, present = {*hosts}, {*standing}
    if not present <= next_ | noticed:
        return False
    is_swap = bool(next_ - present) and len(next_) <= len(present)
    if is_swap:
        return bool(noticed & next_)
    if not any(node.state in COMING and not node.failed for node in nodes):
        return False
    if not (has_work if standing else starts_early or has_begun):
        return True
    idle = [node for node in nodes if node.address in hosts and node.address not in standing]
    waited = sum(max(0.0, now - node.since) for node in idle)
    return waited < MOVE_SECONDS * (len(standing) or len(idle))


def out_of_reach(away: Sequence[str], used: int, patience: float) -> str:
    """Return which nodes do not answer although their ranks may train on; empty for none.

    Args:
        away: Their ids.
        used: The number of nodes with ranks.
        patience: Seconds that ranks wait for this computer.
    """
    if not away:
        return ""
    if len(away) < used:
        does, them = ("does", "it") if len(away) == 1 else ("do", "them")
        return (
            f"{', '.join(away)} {does} not answer this computer. The run continues there while "
            f"other nodes reach {them}."
        )
    return (
        f"No node answers. The ranks train on there, for up to {duration(patience)} without this "
        "computer, and what they report is shown when a node answers."
    )


def shortage(wish: FleetWish, ready: int, price: float) -> str:
    """Return for what a run waits below the minimum, and what that costs; empty if it does not.

    Args:
        ready: Nodes that may carry a world.
        price: $/h of all nodes now.
    """
    least = min(wish.min_nodes, wish.nodes)
    if ready >= least:
        return ""
    costs = hourly(price, wish.place.unit)
    cost = f" The nodes cost {costs} meanwhile." if price else ""
    return (
        f"{ready} of at least {count(least, 'node')} are ready; the run waits for "
        f"{least - ready} more, and then continues by itself.{cost}"
    )
