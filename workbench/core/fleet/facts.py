"""The observed state of a fleet, and the actions on it, as values."""

from __future__ import annotations

from dataclasses import dataclass

from workbench.core.fleet.model import Leftover, Machine, Node, Offer
from workbench.core.fleet.purchases import Order
from workbench.core.fleet.reconcile import SessionState


@dataclass(frozen=True)
class FleetFact:
    """All that is known of a fleet.

    Args:
        founded: Epoch seconds at which the cluster was defined; tells it from an earlier one
            of the same name.
        asked: Epoch seconds of the wish; a later one starts again what was given up.
        machines: As last listed, also those just gone.
        seen: Epoch seconds at which that list was asked for.
        orders: All, oldest first.
        offers: None while they are not known.
        used: Ids of the nodes on which a world stands.
        noticed: Ids of the nodes that the place said it would take back, not only that it might.
        calling: Tokens of the purchases whose call is under way.
        waiting: Runs that wait.
        idle: Seconds for which no run has been on or waited.
        left: What the last clean-up left; None while there was none.
        cleaned: Epoch seconds at which that clean-up began.
    """

    cluster: str
    founded: float
    asked: float
    nodes: tuple[Node, ...] = ()
    machines: tuple[Machine, ...] = ()
    seen: float = 0.0
    orders: tuple[Order, ...] = ()
    offers: tuple[Offer, ...] | None = None
    contacts: tuple[SessionState, ...] = ()
    used: frozenset[str] = frozenset()
    noticed: frozenset[str] = frozenset()
    calling: frozenset[str] = frozenset()
    waiting: int = 0
    idle: float = 0.0
    left: tuple[Leftover, ...] | None = None
    cleaned: float = 0.0


@dataclass(frozen=True)
class Buy:
    """Write the order down as it is here, then make the call; again for the same token.

    Afterwards the order is recorded with its outcome and the time of the answer; where no answer
    came it stays as it is.
    """

    order: Order


@dataclass(frozen=True)
class RecordOrder:
    """Write the order down: what came of it was learnt otherwise."""

    order: Order


@dataclass(frozen=True)
class Put:
    """Write the node down."""

    node: Node


@dataclass(frozen=True)
class Open:
    """Open a verified session; the node is then written down as verified, unless it was more."""

    id: str


@dataclass(frozen=True)
class PrepareNode:
    """Run the prepare script and stage the data; the node is then ready, or it has failed."""

    id: str


@dataclass(frozen=True)
class Terminate:
    """End machines; those that have ended are as good."""

    ids: tuple[str, ...]
    why: str


@dataclass(frozen=True)
class Wait:
    """Nothing is bought now, though nodes are missing.

    Args:
        until: Epoch seconds; 0 until the wish is made again, or what it waits for has changed.
    """

    until: float
    why: str


@dataclass(frozen=True)
class Clean:
    """Delete what belongs to the cluster, as far as it goes now, and keep what was left."""


@dataclass(frozen=True)
class Finish:
    """Nothing is left, and that was seen: the fleet may be forgotten."""


Action = Buy | RecordOrder | Put | Open | PrepareNode | Terminate | Wait | Clean | Finish
