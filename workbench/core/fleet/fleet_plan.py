"""Decide the next actions of a fleet, without talking to a provider.

Each turn begins with nodes as observed (``reconcile``) and moves them on in a ``FleetView``. What
was decided is recorded before it is done, so a supervisor that is killed in between finds the
record and the token of the purchase, and buys nothing twice. ::

              Buy                 login              PrepareNode           a world has its ranks
    (missing) ────▶ asked ──▶ booting ────▶ verified ──────▶ data ready ◀───────────▶ joined
                      │          │             │                 │                      │
                      └──────────┴─────────────┴─────────────────┴──────────────────────┴──▶ leaving
                                                                                               │
                        Terminate, once no world has ranks on it, or after a while            │
                                                                                 gone ◀────────┘

A node leaves if fewer are wanted, the max price or the budget demands it, the provider takes it
back (``node_health`` says when), or it is late: not reached, or not prepared in time. While none of
the running nodes answers, the way to them is the likeliest cause: then nothing is replaced or
bought. What a provider refuses is answered by ``provisioning`` with a wait or the next fallback.
When the cluster is deleted or its time is over, all nodes leave, then ``Clean`` removes what they
shared, and ``Finish`` ends the supervisor.
"""

from __future__ import annotations

from dataclasses import replace

from workbench.core.fleet.cost import RELEASE_SECONDS, is_used_up
from workbench.core.fleet.facts import (
    Action,
    Buy,
    Clean,
    ExplainSilence,
    Finish,
    FleetFact,
    Open,
    PrepareNode,
    Put,
    RecordPurchase,
    Terminate,
    Wait,
)
from workbench.core.fleet.membership import by_worth, elect_head, has_data, wished_nodes
from workbench.core.fleet.model import COMING, FleetWish, NodeState
from workbench.core.fleet.node_health import (
    ALIVE,
    LEASE_SECONDS,
    SAID_SECONDS,
    SessionState,
    adopt_machine,
    is_reachable,
    late,
    leave_in_time,
    leave_noticed,
)
from workbench.core.fleet.provisioning import give_up_open, is_under_way, supply
from workbench.core.fleet.state import FleetView
from workbench.core.units import dollars, hourly

__all__ = [
    "Action",
    "Buy",
    "Clean",
    "ExplainSilence",
    "Finish",
    "FleetFact",
    "Open",
    "PrepareNode",
    "Put",
    "RecordPurchase",
    "SessionState",
    "Terminate",
    "Wait",
    "plan_fleet",
]

# A node that is to end may carry its world for so long, until the next one is up elsewhere.
LEAVE_SECONDS = 180.0
# Nodes below the minimum may wait for others so long, and are then released.
WAIT_SECONDS = 900.0
# A node that is taken back may be free in its first hour, unless we end it ourselves.
TAKEN_SECONDS = 300.0
_SMALLER = "the fleet was made smaller"
_ROUNDING = 1e-9
_UNREACHED = (NodeState.ASKED, NodeState.BOOTING)


def plan_fleet(wish: FleetWish, fact: FleetFact, *, wanted: bool, now: float) -> list[Action]:
    """Return the next actions; the same state always has the same ones.

    Only ``Buy``, ``Terminate`` and ``Clean`` change resources. Observations, and decisions that
    take longer than a moment, are recorded first: a new supervisor continues from there.

    Args:
        wanted: False if everything is to be deleted.
    """
    if not wish.place.has_nodes:
        return [] if wanted else [Finish()]
    view = FleetView(wish, fact, now)
    is_over = bool(wish.expires) and now >= wish.expires
    actions = _keep(view) if wanted and not is_over else _take_down(view, is_over)
    return [*map(RecordPurchase, view.news), *map(Put, view.changed), *actions]


# -- while the cluster is wanted


def _keep(view: FleetView) -> list[Action]:
    if is_used_up(view.spent, view.price, view.wish.budget):
        return _end_all(view)
    _give_up(view)
    for node in leave_in_time(
        [node for node in view.staying if view.is_taken(node)],
        view.fact.used,
        view.fact.lead,
        view.now,
    ):
        view.nodes[node.id] = leave_noticed(node, view.now)
    target = _target(view)
    least = min(view.wish.min_nodes, target)
    if not view.is_rented:
        _choose_hosts(view, target)
    _take_back(view, target)
    _fit_price(view, least)
    _release_waiting(view, least)
    for node in by_worth(view.kept, view.fact.used)[target:]:
        view.leave(node, view.fact.over or _SMALLER)
    _elect(view, least)
    return [
        *_releases(view),
        *_sessions(view),
        *_explain_silence(view),
        *supply(view, target, least),
    ]


def _end_all(view: FleetView) -> list[Action]:
    spent, budget = (
        dollars(amount, view.wish.place.unit) for amount in (view.spent, view.wish.budget)
    )
    why = (
        f"{spent} of the budget of {budget} are spent, and what is left is needed to end the "
        "nodes; raise the budget to continue"
    )
    for node in view.staying:
        view.leave(node, why)
    # Those with ranks wait, while the budget allows it, until the runs have saved and left them.
    is_last = is_used_up(view.spent, view.price, view.wish.budget, RELEASE_SECONDS)
    ids = tuple(node.id for node in view.alive if is_last or node.id not in view.fact.used)
    return [*([Terminate(ids, why)] if ids else []), Wait(0.0, f"{why}.")]


def _give_up(view: FleetView) -> None:
    """Release nodes that failed or are unreachable; hosts are retried after a new wish."""
    for node in view.staying:
        machine, contact = view.machines.get(node.id), view.contacts.get(node.id)
        others = any(one.open for one in view.contacts.values())
        lease = view.wish.setting("lease", LEASE_SECONDS)
        why = late(node, machine, contact, view.now, others=others, lease=lease) if machine else ""
        if why and view.is_rented:
            view.leave(node, why, failed=node.state in _UNREACHED)
        elif node.failed and node.since < view.fact.asked:
            view.nodes[node.id] = replace(
                node, failed=False, state=NodeState.BOOTING, since=view.now, message=""
            )


def _target(view: FleetView) -> int:
    if view.fact.over:
        return 0
    return wished_nodes(
        view.wish.nodes,
        view.wish.min_nodes,
        view.wish.max_nodes,
        there=len(view.kept),
        waiting=view.fact.waiting,
        idle=view.fact.idle,
    )


def _choose_hosts(view: FleetView, target: int) -> None:
    """Add hosts in the order in which they are listed; failed ones do not count."""
    missing = target - sum(not node.failed for node in view.kept)
    for id_, machine in view.machines.items():
        known = view.nodes.get(id_)
        is_spent = known is not None and known.failed and known.since >= view.fact.asked
        if missing > 0 and not is_spent and (known is None or known.state is NodeState.GONE):
            view.nodes[id_] = adopt_machine(machine, known, view.now)
            missing -= 1


def _take_back(view: FleetView, target: int) -> None:
    """Keep nodes that were to end, if they are wanted again and still carry a world."""
    staying = [
        node
        for node in view.alive
        if node.state is NodeState.LEAVING
        and node.id in view.fact.used
        and not node.failed
        and not view.is_taken(node)
        and view.has_session(node)
        and view.now - node.since < LEAVE_SECONDS
    ]
    missing = target - len(view.kept)
    for node in by_worth(staying, view.fact.used)[: max(0, missing)]:
        has_head = any(other.head for other in view.staying)
        view.nodes[node.id] = replace(
            node,
            state=NodeState.READY,
            since=view.now,
            message="",
            head=node.head and not has_head,
        )


def _fit_price(view: FleetView, least: int) -> None:
    """Release nodes that exceed the max price; all of them, if too few would be left."""
    most = view.wish.max_price
    staying = by_worth(view.kept, view.fact.used)
    while most and staying and sum(node.price for node in staying) > most + _ROUNDING:
        staying.pop()
    if len(staying) < least and len(staying) < len(view.kept):
        staying = []
    ids = {node.id for node in staying}
    for node in view.kept:
        if node.id not in ids:
            view.leave(node, f"together the nodes cost more than the max price of {hourly(most)}")


def _release_waiting(view: FleetView, least: int) -> None:
    """Release nodes that have long been too few for a world, while no other is coming.

    The minimum is then bought together or not at all. Nodes with the snapshots of a run that waits
    to continue are kept.
    """
    if not view.is_rented or view.fact.used or view.fact.has_begun:
        return
    waiting = [node for node in view.kept if has_data(node)]
    is_over = all(view.now - node.since >= WAIT_SECONDS for node in waiting)
    if is_over and len(waiting) < least and len(waiting) == len(view.kept):
        minutes = f"{WAIT_SECONDS / 60:.0f} minutes"
        for node in waiting:
            view.leave(node, f"it waited {minutes} for a minimum of {least} nodes")


def _elect(view: FleetView, least: int) -> None:
    """Choose a head if there is none, among all nodes that will carry the first world."""
    sound = [node for node in view.kept if not node.failed]
    able = [node for node in sound if has_data(node)]
    heads = [node for node in view.staying if node.head]
    if any(not node.failed for node in heads) or len(able) < max(1, least):
        return
    if not view.fact.used and any(node.state in COMING for node in sound):
        return
    for node in heads:
        view.nodes[node.id] = replace(node, head=False)
    chosen = elect_head(able)
    view.nodes[chosen.id] = replace(view.nodes[chosen.id], head=True)


def _releases(view: FleetView) -> list[Action]:
    """Terminate leaving nodes once they carry no world, or after a while.

    One that is taken back is paid until then, unless that makes all of it free.
    """
    groups: dict[str, list[str]] = {}
    for node in [node for node in view.alive if node.state is NodeState.LEAVING]:
        waited = view.now - node.since
        may_be_free = view.now - node.launched < view.wish.place.credited_seconds
        if view.is_taken(node) and not node.failed and (may_be_free or node.id in view.fact.used):
            is_due = waited >= TAKEN_SECONDS
        else:
            # Where fewer nodes were asked for, a run that cannot move is waited for.
            waits = node.message == _SMALLER and view.fact.has_begun
            is_late = waited >= LEAVE_SECONDS and not waits
            is_due = node.failed or node.id not in view.fact.used or is_late
        if is_due and view.is_rented:
            groups.setdefault(node.message, []).append(node.id)
        elif is_due:
            view.part(node)
    return [Terminate(tuple(ids), why) for why, ids in groups.items()]


def _sessions(view: FleetView) -> list[Action]:
    actions: list[Action] = []
    for node in view.staying:
        machine, contact = view.machines.get(node.id), view.contacts.get(node.id)
        if machine is None or not is_reachable(machine) or (contact and contact.working):
            continue
        if contact is None or not contact.open:
            actions.append(Open(node.id))
        elif node.state is NodeState.VERIFIED and not node.failed:
            actions.append(PrepareNode(node.id))
    return actions


def _explain_silence(view: FleetView) -> list[Action]:
    """Say that no node answers, and why, once that has lasted for a while."""
    silent = [
        node for node in view.silent if view.now - view.contacts[node.id].since >= SAID_SECONDS
    ]
    if not silent:
        return []
    nodes = f"{len(silent)} node{'s run' if len(silent) != 1 else ' runs'}"
    why = (
        f"{nodes} and none answers, so nothing is replaced or bought until one does. "
        f"{view.fact.silence or 'The cause is being looked for.'}"
    )
    return [ExplainSilence(tuple(node.id for node in silent)), Wait(0.0, why)]


# -- when everything is to be deleted


def _take_down(view: FleetView, is_over: bool) -> list[Action]:
    """Terminate all nodes, wait until they are gone, then delete what is left, until done."""
    why = "its time to live is over" if is_over else "the cluster was deleted"
    for node in view.staying:
        view.leave(node, why)
    if not view.is_rented:
        for node in view.alive:
            view.part(node)
    ids = tuple(m.id for m in view.fact.machines if m.state in ALIVE) if view.is_rented else ()
    actions: list[Action] = [Terminate(ids, why)] if ids else []
    actions += give_up_open(view)
    if actions or is_under_way(view):
        return actions
    last = max((record.at for record in view.purchases), default=0.0)
    ended = max((node.ended for node in view.nodes.values()), default=0.0)
    if view.fact.left == () and view.fact.cleaned > max(last, ended):
        return [Finish()]
    return [Clean()]
