"""Reconcile the known nodes with the provider's list and the open sessions, and find late ones.

A node with an interruption notice is paid until its end, so it trains on while another one is
bought in its place. Its ranks leave it once nodes without a notice are ready for all of them, or
at the latest safe moment. Then one move does what two would: to fewer nodes, and back. ::

    notice ──▶ joined, with a deadline ──▶ leaving ──▶ gone
                 │  ▲                        ▲  its end is less than ``lead`` seconds away, or
                 │  └─ the notice is         │  unknown, or no ranks are on it and none are worth it
                 │     taken back            │
                 └───────────────────────────┘
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace

from workbench.core.fleet.model import COMING, Machine, MachineState, Node, NodeState
from workbench.core.fleet.purchases import LAG_SECONDS

# From the launch, or this supervisor's first attempt, until a session must be open.
BOOT_SECONDS = 600.0
# A node is given up that lost its session for so long, while another one answers.
SILENT_SECONDS = 120.0
# While none answers, the way to them is the likeliest cause: nodes that were never reached are
# given up after so long, before they end themselves.
UNREACHED_SECONDS = 900.0
# The others end themselves when their lease is over. A node that runs for so much longer is dead.
LEASE_SECONDS, DEAD_SECONDS = 1800.0, 300.0
# A session may take so long to be opened before it is said that no node answers.
SAID_SECONDS = 60.0
# A run pauses for about so long while it moves; 0.7 s on one machine, more over ssh.
MOVE_SECONDS = 2.0
# Ranks leave a node with a notice at least so long before its end.
LEAST_LEAD_SECONDS = 15.0

ALIVE = (MachineState.PENDING, MachineState.RUNNING)
_TAKEN_BACK = "the provider takes it back"


@dataclass(frozen=True)
class SessionState:
    """The session with one node; a node without one was not tried yet.

    Args:
        open: Whether a verified session is open.
        since: Epoch seconds at which it was opened, lost, or first tried.
        working: Whether it is being opened or prepared now.
    """

    id: str
    open: bool
    since: float
    working: bool = False


def adopt_machine(machine: Machine, known: Node | None, now: float) -> Node:
    """Return the node of a machine that is not recorded, or was recorded as gone."""
    node = known or Node(machine.id, NodeState.ASKED)
    begun = replace(node, state=NodeState.ASKED, since=now, ended=0.0, head=False, failed=False)
    return _describe_node(replace(begun, launched=machine.launched, message=""), machine, now)


def record_unseen_end(machine: Machine, now: float) -> Node:
    """Return the node of a machine that ended before it was first seen; it is billed."""
    return _mark_gone(adopt_machine(machine, None, now), machine, now)


def update_node(node: Node, machine: Machine, contact: SessionState | None, now: float) -> Node:
    """Return the present state of a node from its machine and its session."""
    if machine.state is MachineState.GONE:
        return _mark_gone(node, machine, now)
    if machine.state is MachineState.STOPPING:
        return _leaving(
            node, machine.reason or "it is ending", now, failed=_by_itself(node, machine)
        )
    if machine.interrupted:
        node = _leaving(node, machine.reason or _TAKEN_BACK, now)
    node = _describe_node(node, machine, now)
    if contact and contact.open and node.state is NodeState.BOOTING:
        return replace(node, state=NodeState.VERIFIED, since=now, message="")
    return node


def apply_notice(node: Node, reclaimed: float, now: float) -> Node:
    """Return a node that has an interruption notice; without a known end it leaves at once.

    Args:
        reclaimed: Epoch seconds at which it is taken back; 0 if unknown.
    """
    node = node if reclaimed else leave_noticed(node, now)
    return replace(node, reclaimed=reclaimed)


def leave_noticed(node: Node, now: float) -> Node:
    """Return a node that leaves because of its notice."""
    return _leaving(node, _TAKEN_BACK, now)


def withdraw_notice(node: Node) -> Node:
    """Return a node whose notice the provider has taken back."""
    return replace(node, reclaimed=0.0)


def leave_in_time(
    noticed: Iterable[Node], used: Collection[str], lead: float, now: float
) -> list[Node]:
    """Return which nodes with a notice leave now, of those that do not leave yet.

    One that carries ranks leaves ``lead`` seconds before its end. Others leave with it if their own
    moment is so near that what they would still train is less than what another move costs. One
    that carries none may still get some, unless that costs more: a move to it, and one away.

    Args:
        used: Ids of all nodes that have a world.
        lead: Seconds.
    """
    left = MOVE_SECONDS * len(used)
    leaving, is_due = [], False
    for node in sorted(noticed, key=lambda node: node.reclaimed):
        early = max(0.0, node.reclaimed - lead - now)
        if node.id not in used:
            leaving += [node] if early <= 2 * MOVE_SECONDS * len(used) else []
        elif not early or (is_due and early <= left):
            leaving.append(node)
            is_due, left = True, left - early
    return leaving


def mark_unlisted(node: Node, seen: float, now: float) -> Node:
    """Return a node that the provider does not list; shortly after its launch, unchanged."""
    if seen < (node.launched or node.since) + LAG_SECONDS:
        return node
    message = node.message if node.state is NodeState.LEAVING else "the provider no longer lists it"
    return replace(
        node, state=NodeState.GONE, since=now, ended=now, price=0.0, head=False, message=message
    )


def late(
    node: Node,
    machine: Machine,
    contact: SessionState | None,
    now: float,
    *,
    others: bool,
    lease: float = LEASE_SECONDS,
) -> str:
    """Return why a node is no longer awaited; empty while it is.

    Args:
        others: Whether another node answers.
        lease: A node ends itself when it hears nothing for so many seconds.
    """
    if node.failed:
        return node.message or "it could not be prepared"
    if machine.waits or (contact and contact.open):
        return ""
    reachable = is_reachable(machine)
    if node.state in (NodeState.ASKED, NodeState.BOOTING):
        begun = node.launched or node.since
        if reachable:
            # A node that booted while no supervisor ran still gets its time.
            begun = max(begun, contact.since) if contact else now
        patience = BOOT_SECONDS if others or not reachable else UNREACHED_SECONDS
        if now - begun > patience:
            return f"it did not come up within {patience / 60:.0f} minutes"
    elif contact and now - contact.since > (
        patience := SILENT_SECONDS if others else lease + DEAD_SECONDS
    ):
        return f"it could not be reached for {patience / 60:.0f} minutes"
    return ""


def is_silent(node: Node, machine: Machine, contact: SessionState, now: float) -> bool:
    """Return whether a running node does not answer; a new one gets a while to boot."""
    is_new = node.state in (NodeState.ASKED, NodeState.BOOTING)
    waited = now - contact.since >= (SAID_SECONDS if is_new else 0.0)
    return is_reachable(machine) and not contact.open and not node.failed and waited


def is_reachable(machine: Machine) -> bool:
    """Return whether a session can be tried."""
    return machine.state is MachineState.RUNNING and bool(machine.reach)


def _describe_node(node: Node, machine: Machine, now: float) -> Node:
    node = replace(
        node,
        address=machine.address or node.address,
        slots=machine.slots or node.slots,
        type=machine.type or node.type,
        zone=machine.zone or node.zone,
        price=machine.price or node.price,
        launched=node.launched or machine.launched,
        network=machine.network or node.network,
        flow=machine.flow or node.flow,
        extra_price=machine.extra_price or node.extra_price,
    )
    if machine.waits and node.state in (NodeState.ASKED, NodeState.BOOTING):
        return replace(node, message=machine.waits)
    if node.state is NodeState.ASKED and machine.state is MachineState.RUNNING:
        return replace(node, state=NodeState.BOOTING, since=now, message="")
    return node


def _by_itself(node: Node, machine: Machine) -> bool:
    """Return whether a starting node ended without our request."""
    return node.failed or (node.state in COMING and not machine.interrupted)


def _leaving(node: Node, message: str, now: float, *, failed: bool | None = None) -> Node:
    if node.state is NodeState.LEAVING:
        return node
    failed = node.failed if failed is None else failed
    return replace(node, state=NodeState.LEAVING, since=now, message=message, failed=failed)


def _mark_gone(node: Node, machine: Machine, now: float) -> Node:
    left = node.state is NodeState.LEAVING
    reason = machine.reason or (_TAKEN_BACK if machine.interrupted else "it ended by itself")
    return replace(
        node,
        state=NodeState.GONE,
        since=now,
        ended=machine.ended or now,
        price=0.0,
        head=False,
        message=node.message if left else reason,
        failed=node.failed if left else _by_itself(node, machine),
    )
