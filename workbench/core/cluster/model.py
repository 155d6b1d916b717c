"""A cluster's desired state (wish) and observed state (fact), as values."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from enum import StrEnum

from workbench.core.fleet.model import FleetWish
from workbench.errors import InputError


class ResizeAt(StrEnum):
    """When a run that trains moves to the ranks of another size."""

    STEP = "step"
    EPOCH = "epoch"
    END = "end"


class WhenDone(StrEnum):
    """What becomes of a cluster's nodes when a run has ended, and no other waits."""

    KEEP = "keep"
    RELEASE = "release"
    DELETE = "delete"


DEFAULT_CLUSTER = "default"
THIS_MACHINE = FleetWish()
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,39}")


class ClusterState(StrEnum):
    """The state of a cluster."""

    DOWN = "down"
    STARTING = "starting"
    READY = "ready"
    PAUSED = "paused"
    RESIZING = "resizing"
    STOPPING = "stopping"
    FAILED = "failed"


@dataclass(frozen=True)
class ClusterWish:
    """The desired state of a cluster.

    Args:
        name: The name of the cluster.
        up: Whether it should run at all.
        ranks: The requested world size.
        oversubscribe: Whether ranks may share cores.
        revision: Larger with every wish; the last one counts.
        fleet: The nodes of the cluster (default: this machine alone).
        resize_at: When a run that trains moves to these ranks.
    """

    name: str
    up: bool
    ranks: int
    oversubscribe: bool = False
    revision: int = 0
    fleet: FleetWish = THIS_MACHINE
    resize_at: ResizeAt = ResizeAt.STEP


@dataclass(frozen=True)
class ClusterFact:
    """The observed state of a cluster.

    Args:
        ranks: World size of the generation that takes runs; 0 while there is none.
        generation: Its number; 0 while there is none.
        message: One sentence for the user; empty if there is nothing to report.
        supervisor: Process id of the supervisor; 0 when it has ended.
        connection_file: Path of the ipyparallel client's connection file, or empty.
        updated: Epoch seconds of the last change.
        since: The first generation after the cluster was last started; what ran before is gone.
        newest: The newest generation that was begun, also if it never took a run. Its number is
            not given again: what is left of it may still be there.
        settled: Epoch seconds at which the nodes that were asked for were first ready; 0 before.
        released: When they were given back because there was nothing to do; 0 while they are not.
        releases: When that follows, while it is announced; 0 otherwise.
        beside: The generations beside that of the cells.
    """

    name: str
    state: ClusterState = ClusterState.DOWN
    ranks: int = 0
    generation: int = 0
    message: str = ""
    supervisor: int = 0
    connection_file: str = ""
    updated: float = 0.0
    since: int = 0
    newest: int = 0
    settled: float = 0.0
    released: float = 0.0
    releases: float = 0.0
    beside: tuple[int, ...] = ()

    def __repr__(self) -> str:
        return f"<Cluster {self.name}: {self.state}, {self.ranks} ranks, gen {self.generation}>"


def keeps_nodes(wish: ClusterWish, fact: ClusterFact) -> bool:
    """Return whether a cluster is down because its time was over, and keeps its definition.

    The supervisor's message says so: one that its user has deleted keeps nothing.
    """
    has_nodes = wish.fleet.place.has_nodes
    return has_nodes and not wish.up and fact.message == time_over_message(wish)


def time_over_message(wish: ClusterWish) -> str:
    """Return the message of a cluster whose time to live is over."""
    if not wish.fleet.place.has_nodes:
        return "Its time to live is over, and its ranks are ended."
    return (
        "Its time to live is over: its nodes are released, and its definition stays. "
        f"`workbench up --cluster {wish.name} --ttl 8h` starts them again."
    )


def as_next_started(wish: ClusterWish, fact: ClusterFact) -> ClusterWish:
    """Return the wish, or the defaults of a new start if the cluster was deleted."""
    is_here = wish.fleet == THIS_MACHINE
    if wish.up or is_here or fact.state is not ClusterState.DOWN:
        return wish
    return replace(wish, ranks=0, oversubscribe=False, fleet=THIS_MACHINE)


def shown_state(wish: ClusterWish | None, fact: ClusterFact) -> ClusterState:
    """Return the state to show: a wish counts at once, before its supervisor has read it."""
    if wish is None:
        return fact.state
    if wish.up:
        return ClusterState.STARTING if fact.state is ClusterState.DOWN else fact.state
    ends = fact.state not in (ClusterState.DOWN, ClusterState.FAILED)
    return ClusterState.STOPPING if ends else fact.state


def check_cluster_name(name: str) -> str:
    """Return ``name`` if it is valid.

    Raises:
        InputError: The name is not valid for a folder on every system.
    """
    if not _NAME.fullmatch(name):
        raise InputError(
            f"{name!r} cannot name a cluster",
            "use 1 to 40 letters, digits, '-', '_' or '.'.",
        )
    return name
