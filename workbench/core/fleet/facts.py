"""The observed state of a fleet, and the actions on it, as values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from workbench.core.fleet.model import Leftover, Machine, Node, Offer
from workbench.core.fleet.node_health import LEAST_LEAD_SECONDS, SessionState
from workbench.core.fleet.purchases import PurchaseRecord


@dataclass(frozen=True)
class FleetFact:
    """The observed state of a fleet.

    Args:
        founded: Epoch seconds at which the cluster was defined; an earlier one of this name
            differs.
        asked: Epoch seconds of the wish; a new wish retries what was given up.
        machines: As last listed, also those that have just ended.
        seen: Epoch seconds of the query for that list.
        purchases: All purchases, oldest first.
        offers: None while they are unknown.
        used: Ids of the nodes that have a world.
        noticed: When each node with an interruption notice is taken back, in epoch seconds; 0 if
            unknown. A recommendation does not count.
        withdrawn: Ids of the nodes whose notice was taken back.
        lead: Seconds before the end of a node with a notice at which its ranks are to leave it.
        calling: Tokens of the purchases whose call is running.
        waiting: Number of waiting runs.
        idle: Seconds with nothing to do.
        over: Why no nodes are wanted now, as a clause; empty if they are.
        has_begun: Whether a run is active, or waits to continue from snapshots on the nodes.
        left: The resources that the last clean-up left; None before the first.
        cleaned: Epoch seconds at which that clean-up began.
        silence: Why no node answers, as the provider found, with the remedy; empty if unknown.
    """

    cluster: str
    founded: float
    asked: float
    nodes: tuple[Node, ...] = ()
    machines: tuple[Machine, ...] = ()
    seen: float = 0.0
    purchases: tuple[PurchaseRecord, ...] = ()
    offers: tuple[Offer, ...] | None = None
    contacts: tuple[SessionState, ...] = ()
    used: frozenset[str] = frozenset()
    noticed: Mapping[str, float] = field(default_factory=dict)
    withdrawn: frozenset[str] = frozenset()
    lead: float = LEAST_LEAD_SECONDS
    calling: frozenset[str] = frozenset()
    waiting: int = 0
    idle: float = 0.0
    over: str = ""
    has_begun: bool = False
    left: tuple[Leftover, ...] | None = None
    cleaned: float = 0.0
    silence: str = ""


@dataclass(frozen=True)
class Buy:
    """Record the purchase as it is here, then make the call; again for the same token.

    Afterwards the purchase is recorded with its outcome and the time of the answer; without an
    answer it stays as it is.
    """

    record: PurchaseRecord


@dataclass(frozen=True)
class RecordPurchase:
    """Record a purchase whose outcome is known otherwise than by its answer."""

    record: PurchaseRecord


@dataclass(frozen=True)
class Put:
    """Record the node."""

    node: Node


@dataclass(frozen=True)
class Open:
    """Open a verified session; the node is then recorded as verified, unless it is further."""

    id: str


@dataclass(frozen=True)
class PrepareNode:
    """Run the prepare script and stage the data; the node is then ready, or has failed."""

    id: str


@dataclass(frozen=True)
class ExplainSilence:
    """Find out why none of these running nodes answers."""

    ids: tuple[str, ...]


@dataclass(frozen=True)
class Terminate:
    """Terminate machines; those that have ended count as terminated."""

    ids: tuple[str, ...]
    why: str


@dataclass(frozen=True)
class Wait:
    """Buy nothing now, though nodes are missing.

    Args:
        until: Epoch seconds; 0 until there is a new wish, or the cause has changed.
    """

    until: float
    why: str


@dataclass(frozen=True)
class Clean:
    """Delete the cluster's resources as far as possible now, and record what is left."""


@dataclass(frozen=True)
class Finish:
    """End the supervisor: the provider lists nothing of the cluster any longer."""


Action = (
    Buy
    | RecordPurchase
    | Put
    | Open
    | PrepareNode
    | ExplainSilence
    | Terminate
    | Wait
    | Clean
    | Finish
)
