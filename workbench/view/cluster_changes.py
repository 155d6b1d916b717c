"""Changes of a cluster: what one means for its run, the wait for it, and the result in words."""

from __future__ import annotations

import shlex
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from workbench.analysis.network import network_sentence
from workbench.core.cluster.model import ClusterFact, ClusterState, ClusterWish, ResizeAt
from workbench.core.fleet.fallbacks import candidate_of
from workbench.core.fleet.model import NodeState
from workbench.core.fleet.spot_history import SpotHistory
from workbench.core.recovery.departure import has_no_epochs
from workbench.core.recovery.resumption import can_move, is_resumable
from workbench.core.units import count
from workbench.errors import ClusterError, InputError, StateError
from workbench.requests.cloud_queries import (
    ask_interruption,
    ask_leftovers,
    ask_purge,
    ask_replay,
)
from workbench.requests.cluster import is_released, known_wish, training_run
from workbench.requests.supervisor import SupervisorMonitor, rouse, supervisor_is_awake
from workbench.store import Store
from workbench.store.disk import full_disk
from workbench.view.following import POLL_SECONDS
from workbench.view.state_line import failure
from workbench.view.tables.nodes import OUTCOMES, fleet_of, money_line, nodes_line
from workbench.view.text import dollars, duration, hourly

# By then the supervisor has seen a new number of nodes, and has requested them.
SETTLE_SECONDS = 20.0


def wait_ready(store: Store, cluster: str, say: Callable[[str], None]) -> ClusterFact:
    """Wait until ``cluster`` has the requested ranks or nodes.

    Args:
        store: Where its facts are.
        cluster: Its name.
        say: Shows the current state.

    Raises:
        ClusterError: It failed.
        StateError: It was deleted meanwhile.
    """
    asked, begun = time.time(), time.monotonic()
    care = SupervisorMonitor(cluster, begun)
    while True:
        waited = time.monotonic() - begun
        now, wish, fact = time.time(), store.cluster_wish(cluster), store.cluster_fact(cluster)
        if wish is None or not wish.up:
            raise StateError(f"Cluster {cluster!r} was deleted while it was starting.")
        if _is_ready(store, wish, fact, waited):
            return fact
        if verdict := failure(fact, asked, asked + waited):
            raise ClusterError(verdict)
        say(_standing(store, wish, fact, now))
        care.look(begun + waited)
        time.sleep(POLL_SECONDS)


def wait_down(store: Store, cluster: str, say: Callable[[str], None]) -> float:
    """Wait until ``cluster`` and its supervisor are gone; return its cost.

    Args:
        store: Where its facts are.
        cluster: Its name.
        say: Shows the current state.

    Raises:
        StateError: It was started again meanwhile.
    """
    care = SupervisorMonitor(cluster, time.monotonic())
    spent = 0.0
    while True:
        now, wish, fact = time.time(), store.cluster_wish(cluster), store.cluster_fact(cluster)
        spent = max(spent, cluster_cost(store, cluster))  # its last state is not written
        if wish is not None and wish.up:
            raise StateError(f"Cluster {cluster!r} was started again while it was being deleted.")
        if fact.state is not ClusterState.DOWN:
            care.look(time.monotonic())
        elif not supervisor_is_awake(cluster):
            return spent
        else:
            rouse(cluster)  # it may hang in its last action
        say(_standing(store, wish, fact, now))
        time.sleep(POLL_SECONDS)


def prove_gone(wish: ClusterWish) -> str:
    """Return the provider's own confirmation that nothing is left, as the end of a sentence.

    Raises:
        ClusterError: Something is left.
        CloudError: The provider does not answer.
    """
    fleet = wish.fleet
    if not fleet.place.is_charged:
        return "; none of its processes is left."
    left = ask_leftovers(fleet, wish.name)
    if left:
        things = ", ".join(f"{one.kind} {one.id}" for one in left)
        price = sum(one.price for one in left)
        costs = f", at {hourly(price, fleet.place.unit)}" if price else ""
        raise ClusterError(
            f"Cluster {wish.name!r} still has {things}{costs}",
            "delete it with `workbench sweep-leaks`.",
        )
    return ". Verified: no resource of it is left."


def cluster_cost(store: Store, cluster: str) -> float:
    """Return the cost of a cluster's nodes so far, in $."""
    return sum(node.spent for node in store.fleets.nodes(cluster, gone=True))


def start_sentence(before: ClusterWish | None, wish: ClusterWish) -> str:
    """Return where a cluster is being started, and whether its provider has changed.

    Args:
        before: The previous wish.
    """
    moved = before is not None and before.fleet.provider != wish.fleet.provider
    remark = f"; its nodes {before.fleet.place.located} were deleted" if before and moved else ""
    return f"Starting cluster {wish.name!r} {wish.fleet.place.located}{remark}."


def deletion_sentence(store: Store, cluster: str) -> str:
    """Return what is deleted with a cluster, and what is kept."""
    names = ", ".join(repr(name) for name, _ in store.setups(cluster))
    also = f" with its set-up cells ({names})" if names else ""
    return f"Cluster {cluster!r} is being deleted{also}; its runs are kept."


def ready_sentence(store: Store, cluster: str, taken: float) -> str:
    """Return the state of a cluster after a wait of ``taken`` seconds."""
    wish, fact = store.cluster_wish(cluster), store.cluster_fact(cluster)
    assert wish is not None
    size = count(fact.ranks, "rank")
    if wish.fleet.place.has_nodes:
        fleet = fleet_of(store, wish, fact.ranks, time.time())
        if not fleet.asked:
            return (
                f"Cluster {cluster!r} has no nodes now, and costs nothing; start some with "
                "`workbench resize --nodes N`."
            )
        size += f" on {nodes_line(fleet)}"
        if fleet.joined < fleet.asked:
            size += "; the others join when they are available"
    ready = f"Cluster {cluster!r} is ready: {size}, after {duration(taken)}."
    return " ".join(filter(None, (ready, network_sentence(store, cluster))))


def interrupt_node(
    store: Store,
    node: str,
    notice: float,
    cluster: str,
    *,
    history: str = "",
    speed: float = 1.0,
    skip: float = 0.0,
    span: float = 0.0,
) -> str:
    """Have a simulated node taken back, or all as in a recording; return which, and when.

    Raises:
        InputError: The recording cannot be read.
    """
    if history:
        if node:
            raise InputError("A recording says which nodes go", f"leave out {node!r}.")
        try:
            text = Path(history).expanduser().read_text(encoding="utf-8")
        except (OSError, ValueError) as error:
            raise InputError(f"{history} cannot be read ({error})", "name a recording.") from None
        part = ask_replay(
            store, text, history,
            speed=speed, skip=skip, span=span, notice=notice, now=time.time(), cluster=cluster,
        )  # fmt: skip
        return replay_sentence(part, Path(history).name, speed)
    taken = ask_interruption(store, node, notice, cluster=cluster)
    wish = store.cluster_wish(cluster)
    assert wish is not None
    when = f" in {duration(notice)}" if notice else ""
    return f"The {wish.fleet.provider} reclaims {taken}{when}; follow it with `workbench status`."


def kept_sentence(wish: ClusterWish) -> str:
    """Return what is promised to who keeps the nodes of a cluster that has nothing to do."""
    return (
        f"The nodes of cluster {wish.name!r} are kept; they are given back after "
        f"{duration(wish.fleet.idle)} with nothing to do."
    )


def replay_sentence(history: SpotHistory, name: str, speed: float) -> str:
    """Return what is replayed, and how long that takes."""
    return (
        f"{duration(history.seconds)} of {name} are replayed in "
        f"{duration(history.seconds / speed)}: up to {history.most} nodes were there, which "
        "all nodes of the cluster represent; follow it with `workbench status`."
    )


def removed_sentence(cluster: str) -> str:
    """Return the result for a cluster that was already deleted."""
    return f"Cluster {cluster!r} was already deleted; it is no longer listed. Its runs are kept."


def gone_sentence(wish: ClusterWish, spent: float) -> str:
    """Return the provider's confirmation that a cluster is gone, and its cost.

    Args:
        spent: $ in all.

    Raises:
        ClusterError: Something is left.
        CloudError: The provider does not answer.
    """
    cost = ""
    place = wish.fleet.place
    if place.is_charged and spent:
        cost = f" It {place.costs} {dollars(spent, place.unit)}."
    return f"Cluster {wish.name!r} is deleted{prove_gone(wish)}{cost}"


def check_purge(store: Store, cluster: str, *, waits: bool) -> None:
    """Check that a cluster's hosts can be purged when it is deleted.

    Raises:
        InputError: They cannot.
        Unknown: There is no such cluster.
    """
    if not known_wish(store, cluster).fleet.setting("equip", False):
        raise InputError("--purge is about hosts that --equip has equipped", "leave it out.")
    if not waits:
        raise InputError("--purge waits until the cluster is deleted", "leave out --no-wait.")


def purge_hosts(store: Store, cluster: str) -> str:
    """Remove all that a deleted cluster has installed on its hosts; return what was done.

    Raises:
        MachineError: Some of them could not be reached.
    """
    fleet = known_wish(store, cluster).fleet
    ask_purge(fleet, cluster)
    return f"All that it had installed is removed from {count(len(fleet.hosts), 'host')}."


def cost_sentence(store: Store, cluster: str, now: float) -> str:
    """Return the continuing cost of a cluster; empty if it costs nothing."""
    wish = store.cluster_wish(cluster)
    if wish is None or not wish.fleet.place.is_charged:
        return ""
    return f" ({money_line(fleet_of(store, wish, 0, now), now)})"


def _is_ready(store: Store, wish: ClusterWish, fact: ClusterFact, waited: float) -> bool:
    if not wish.fleet.place.has_nodes:
        return fact.state is ClusterState.READY and fact.ranks == wish.ranks
    nodes = store.fleets.nodes(wish.name)
    if wish.fleet.nodes == 0 or is_released(wish, fact):
        return not nodes and fact.state in (ClusterState.READY, ClusterState.PAUSED)
    joined = sum(node.state is NodeState.JOINED for node in nodes)
    if wish.fleet.starts_early and fact.ranks and joined >= wish.fleet.min_nodes:
        return True
    if fact.state is not ClusterState.READY or not fact.ranks:
        return False
    if joined == wish.fleet.nodes == len(nodes):
        return True
    # Some nodes may be unavailable for hours; the present ones can be used meanwhile.
    coming = len([node for node in nodes if not node.failed]) > joined
    return waited > SETTLE_SECONDS and not coming and joined >= wish.fleet.min_nodes


def _standing(store: Store, wish: ClusterWish | None, fact: ClusterFact, now: float) -> str:
    reported = full_disk(store.path) or fact.message
    said = f"{fact.state}: {reported}" if reported else str(fact.state)
    if wish is None or not wish.fleet.place.has_nodes:
        return said
    fleet = fleet_of(store, wish, fact.ranks, now)
    tried = fleet.purchases[-1] if fleet.purchases else None
    candidate = (
        f"; {candidate_of(tried.purchase)}: {tried.message or OUTCOMES[tried.outcome]}"
        if tried
        else ""
    )
    return f"{said}; {nodes_line(fleet)}{candidate}"


def resize_effects(store: Store, cluster: str) -> dict[ResizeAt, str]:
    """Return what a resize of ``cluster`` means for its run, for each time that can be asked for.

    It is empty if no run is on the ranks.
    """
    run = training_run(store, cluster)
    if run is None:
        return {}
    name = run.wish.name
    at_end = f"A resize waits for the end of run {name}."
    effects = dict.fromkeys(ResizeAt, at_end)
    if has_no_epochs(run.fact):
        del effects[ResizeAt.EPOCH]
    if not is_resumable(run.wish.kind):
        return effects
    if not can_move(run.wish, store.attempts.newest_snapshot(run.id)):
        now = (
            f"A resize waits for the first snapshot of run {name}, or for its end if it saves "
            "none; loops of workbench.elastic save them."
        )
        return {**dict.fromkeys(effects, now), ResizeAt.END: at_end}
    if run.fact.hindrance:
        now = f"{at_end} {run.fact.hindrance}"
        return {**dict.fromkeys(effects, now), ResizeAt.END: at_end}
    if run.wish.restarts:
        step = (
            f"The script of run {name} starts again on the new ranks when these are ready; it "
            "loads its own newest checkpoint."
        )
        epoch = (
            f"The script of run {name} starts again on the new ranks at the end of its epoch; it "
            "loads its own newest checkpoint."
        )
    else:
        step = f"Run {name} moves to the new ranks at its next iteration, when these are ready."
        epoch = f"Run {name} moves to the new ranks at the end of its epoch, when these are ready."
    effects[ResizeAt.STEP] = step
    if ResizeAt.EPOCH in effects:
        effects[ResizeAt.EPOCH] = epoch
    return effects


def resize_effect(
    store: Store, cluster: str, at: ResizeAt = ResizeAt.STEP, nodes: int | None = None
) -> str:
    """Return what a resize of ``cluster`` means for its run; empty if no run is on its ranks.

    Args:
        nodes: The number that is asked for; None if it is one of ranks.
    """
    if nodes == 0:
        return _describe_release(store, cluster, at)
    effects = resize_effects(store, cluster)
    return effects.get(at, effects.get(ResizeAt.STEP, ""))


def _describe_release(store: Store, cluster: str, at: ResizeAt) -> str:
    """Return what it means that all nodes are released; only terminals say it."""
    run = training_run(store, cluster)
    if run is None:
        return ""
    called = run.wish.name
    moves = can_move(run.wish, store.attempts.newest_snapshot(run.id)) and not run.fact.hindrance
    if not moves or at is ResizeAt.END or (at is ResizeAt.EPOCH and has_no_epochs(run.fact)):
        stop = f"`workbench stop {shlex.quote(called)}` ends it."
        return f"The nodes stay, and cost money, until the end of run {called}; {stop}"
    when = "at the end of its epoch" if at is ResizeAt.EPOCH else "at its next iteration"
    return (
        f"Run {called} is saved and leaves its ranks {when}; it continues by itself once there "
        f"are nodes again (`workbench resize --nodes N`)."
    )


def differ(effects: Mapping[ResizeAt, str]) -> bool:
    """Return whether it matters when a run moves."""
    return bool(effects) and effects[ResizeAt.STEP] != effects[ResizeAt.END]
