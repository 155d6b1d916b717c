"""Decide how long a world waits for nodes that are on their way, and say what a wait costs.

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
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from workbench.core.fleet.model import COMING, FleetWish, Node
from workbench.core.units import count, hourly

MOVE_SECONDS = 2.0
"""A run pauses for about so long while it moves; 0.7 s on one machine, more over ssh."""


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
    """Return whether a world is to wait for nodes that are starting.

    Args:
        nodes: All nodes that are not gone.
        hosts: Addresses of those that can carry a world now.
        standing: Addresses of the hosts that have a world now.
        starts_early: Whether the user asked to start with fewer nodes.
        has_begun: Whether a run is active, or waits to continue.
        has_work: Whether any run is active or waits.
        now: Epoch seconds, as in the nodes' records.
    """
    if not any(node.state in COMING and not node.failed for node in nodes):
        return False
    if not {*standing} <= {*hosts}:
        return False
    if not (has_work if standing else starts_early or has_begun):
        return True
    idle = [node for node in nodes if node.address in hosts and node.address not in standing]
    waited = sum(max(0.0, now - node.since) for node in idle)
    return waited < MOVE_SECONDS * (len(standing) or len(idle))


def shortage(wish: FleetWish, ready: int, price: float) -> str:
    """Return for what a run waits below the minimum, and what that costs; empty if it does not.

    Args:
        ready: Nodes that may carry a world.
        price: $/h of all nodes now.
    """
    least = min(wish.min_nodes, wish.nodes)
    if ready >= least:
        return ""
    cost = f" The nodes cost {hourly(price)} meanwhile." if price else ""
    return (
        f"{ready} of at least {count(least, 'node')} are ready; the run waits for "
        f"{least - ready} more, and then continues by itself.{cost}"
    )
