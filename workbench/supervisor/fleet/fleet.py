"""What the keeper of a fleet observes and reports, as values."""

from __future__ import annotations

from dataclasses import dataclass

from workbench.core.fleet.cost import FleetCost
from workbench.core.fleet.model import Machine, Node
from workbench.core.fleet.node_health import LEAST_LEAD_SECONDS
from workbench.core.world.world import Host


@dataclass(frozen=True)
class MachineListing:
    """The machines that the provider listed.

    Args:
        seen: Epoch seconds of the query.
        locked_out: Why the provider rejects the credentials; empty if it does not.
    """

    machines: tuple[Machine, ...]
    seen: float
    locked_out: str = ""


@dataclass(frozen=True)
class Load:
    """The present use of the nodes.

    Args:
        waiting: Number of waiting runs.
        busy: Whether a run is active.
        used: Addresses of the nodes that have a world.
        whole: Those of them whose world is not broken.
        lead: Seconds that ranks need to leave a node with a notice.
        idle: For how many seconds there has been nothing to do.
        over: Why no nodes are wanted now, as a clause; empty if they are.
    """

    waiting: int = 0
    busy: bool = False
    used: frozenset[str] = frozenset()
    whole: frozenset[str] = frozenset()
    lead: float = LEAST_LEAD_SECONDS
    idle: float = 0.0
    over: str = ""


@dataclass(frozen=True)
class Fleet:
    """The nodes of a cluster as they are.

    Args:
        hosts: The nodes that can carry a world, the head first.
        nodes: All nodes that are not gone.
        message: One sentence for the user; empty if there is nothing to report.
        finished: Whether all nodes were to be deleted, and none is left.
        over: Why all nodes are about to go though the cluster is wanted, as a clause; or empty.
        away: The ids of nodes that do not answer, and whose world is not broken.
    """

    hosts: tuple[Host, ...]
    nodes: tuple[Node, ...]
    bill: FleetCost
    message: str
    finished: bool
    over: str = ""
    away: tuple[str, ...] = ()

    def __repr__(self) -> str:
        return f"<Fleet {len(self.hosts)} of {len(self.nodes)} nodes are ready>"
