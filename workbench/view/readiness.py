"""Wait until a cluster is as it was asked to be, or gone, and say what was found then."""

from __future__ import annotations

import time
from collections.abc import Callable

from workbench.core.cluster import ClusterFact, ClusterState, ClusterWish
from workbench.core.fleet import NodeState, Place
from workbench.core.fleetrequest import COSTLY
from workbench.core.ladder import rung_of
from workbench.errors import ClusterError, StateError
from workbench.store import Store
from workbench.store.asking import ask_leftovers
from workbench.store.wishes import supervisor_is_awake
from workbench.view.care import Care
from workbench.view.following import POLL_SECONDS
from workbench.view.nodes import OUTCOMES, PLACES, fleet_of, money_line, nodes_line
from workbench.view.phrases import count, dollars, duration
from workbench.view.waiting import failure

# A wish that changes the number of nodes is seen by then, and what can be had is asked for.
SETTLE_SECONDS = 20.0


def wait_ready(store: Store, cluster: str, say: Callable[[str], None]) -> ClusterFact:
    """Wait until ``cluster`` has the ranks or the nodes that were asked for.

    Args:
        store: Where its facts are.
        cluster: Its name.
        say: Shows where it stands.

    Raises:
        ClusterError: It failed.
        StateError: Somebody took it down meanwhile.
    """
    asked = time.time()
    care = Care(cluster, asked)
    while True:
        now, wish, fact = time.time(), store.cluster_wish(cluster), store.cluster_fact(cluster)
        if wish is None or not wish.up:
            raise StateError(f"Somebody took cluster {cluster!r} down while it was starting.")
        if _is_ready(store, wish, fact, now - asked):
            return fact
        if verdict := failure(fact, asked, now):
            raise ClusterError(verdict)
        say(_standing(store, wish, fact, now))
        care.look(now)
        time.sleep(POLL_SECONDS)


def wait_down(store: Store, cluster: str, say: Callable[[str], None]) -> float:
    """Wait until nothing of ``cluster`` is left, its supervisor included; return what it cost.

    Args:
        store: Where its facts are.
        cluster: Its name.
        say: Shows where it stands.

    Raises:
        StateError: Somebody started it again meanwhile.
    """
    care = Care(cluster, time.time())
    spent = 0.0
    while True:
        now, wish, fact = time.time(), store.cluster_wish(cluster), store.cluster_fact(cluster)
        spent = max(spent, spent_on(store, cluster))  # nothing is written of it in the end
        if wish is not None and wish.up:
            raise StateError(f"Somebody started cluster {cluster!r} again while it was stopping.")
        if fact.state is not ClusterState.DOWN:
            care.look(now)
        elif not supervisor_is_awake(cluster):
            return spent
        say(_standing(store, wish, fact, now))
        time.sleep(POLL_SECONDS)


def prove_gone(wish: ClusterWish) -> str:
    """Return what the place itself says of a cluster that is down.

    Raises:
        ClusterError: Something is left.
        CloudRefused: The place does not answer.
    """
    fleet = wish.fleet
    if fleet.place not in COSTLY:
        return "nothing of it is left running"
    left = ask_leftovers(fleet.place, fleet.region, wish.name)
    if left:
        things = ", ".join(f"{one.kind} {one.id}" for one in left)
        raise ClusterError(
            f"Of cluster {wish.name!r} there is still {things}; `workbench sweep-leaks` deletes it."
        )
    return f"{PLACES[fleet.place]} was asked just now, and nothing bears its tags"


def spent_on(store: Store, cluster: str) -> float:
    """Return $ that the nodes of a cluster have cost so far."""
    return sum(node.spent for node in store.nodes(cluster, gone=True))


def ready_sentence(store: Store, cluster: str, taken: float) -> str:
    """Return what stands of a cluster that was waited for, for ``taken`` seconds."""
    wish, fact = store.cluster_wish(cluster), store.cluster_fact(cluster)
    assert wish is not None
    if wish.fleet.place is Place.LOCAL:
        return (
            f"Cluster {cluster!r} is ready: {count(fact.ranks, 'rank')}, after {duration(taken)}."
        )
    return f"Cluster {cluster!r}: {nodes_sentence(store, cluster)}, after {duration(taken)}."


def gone_sentence(wish: ClusterWish, spent: float) -> str:
    """Return what the place itself says of a cluster that is down, and what it cost.

    Args:
        spent: $ in all.

    Raises:
        ClusterError: Something is left.
        CloudRefused: The place does not answer.
    """
    cost = ""
    if wish.fleet.place in COSTLY and spent:
        verb = "would have cost" if wish.fleet.place is Place.FAKE else "cost"
        cost = f" It {verb} {dollars(spent)}."
    return f"Cluster {wish.name!r} is down; {prove_gone(wish)}.{cost}"


def nodes_sentence(store: Store, cluster: str) -> str:
    """Return what stands of a cluster's nodes, and how to get at the rest."""
    wish, fact = store.cluster_wish(cluster), store.cluster_fact(cluster)
    assert wish is not None
    fleet = fleet_of(store, wish, fact.ranks, time.time())
    if not fleet.asked:
        return "no nodes, and nothing is paid; `workbench resize --nodes N` starts some"
    more = "; the others join when they can be had" if fleet.joined < fleet.asked else ""
    return f"{count(fact.ranks, 'rank')} on {nodes_line(fleet)}{more}"


def cost_sentence(store: Store, cluster: str, now: float) -> str:
    """Return what goes on to be paid for a cluster; nothing where that is nothing."""
    wish = store.cluster_wish(cluster)
    if wish is None or wish.fleet.place not in COSTLY:
        return ""
    return f" ({money_line(fleet_of(store, wish, 0, now), now)})"


def _is_ready(store: Store, wish: ClusterWish, fact: ClusterFact, waited: float) -> bool:
    if wish.fleet.place is Place.LOCAL:
        return fact.state is ClusterState.READY and fact.ranks == wish.ranks
    nodes = store.nodes(wish.name)
    if wish.fleet.nodes == 0:
        return not nodes and fact.state in (ClusterState.READY, ClusterState.PAUSED)
    if fact.state is not ClusterState.READY or not fact.ranks:
        return False
    joined = sum(node.state is NodeState.JOINED for node in nodes)
    if joined == wish.fleet.nodes == len(nodes):
        return True
    # Some may not be had for hours; those that are there can be used meanwhile.
    coming = len([node for node in nodes if not node.failed]) > joined
    return waited > SETTLE_SECONDS and not coming and joined >= wish.fleet.least


def _standing(store: Store, wish: ClusterWish | None, fact: ClusterFact, now: float) -> str:
    said = f"{fact.state}: {fact.message}" if fact.message else str(fact.state)
    if wish is None or wish.fleet.place is Place.LOCAL:
        return said
    fleet = fleet_of(store, wish, fact.ranks, now)
    tried = fleet.orders[-1] if fleet.orders else None
    rung = (
        f"; {rung_of(tried.purchase)}: {tried.message or OUTCOMES[tried.outcome]}" if tried else ""
    )
    return f"{said}; {nodes_line(fleet)}{rung}"
