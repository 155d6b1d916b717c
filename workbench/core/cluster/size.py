"""Decide what another size of a cluster means, in ranks or in nodes."""

from __future__ import annotations

from dataclasses import dataclass, replace

from workbench.core.cluster.model import ClusterWish
from workbench.core.cluster.target_world import wished_world
from workbench.core.fleet.model import FleetWish
from workbench.core.fleet.request import MAX_NODES, check_fleet
from workbench.core.units import count
from workbench.core.world.world import MAX_RANKS, Host
from workbench.errors import InputError


@dataclass(frozen=True)
class Size:
    """How large a cluster is to be, in ranks or in nodes; with 0 nodes its definition stays.

    Raises:
        InputError: Neither was given, or both, or no cluster can have that size.
    """

    ranks: int | None = None
    nodes: int | None = None

    def __post_init__(self) -> None:
        if (self.ranks is None) == (self.nodes is None):
            raise InputError("Give one size: a number of ranks or a number of nodes.")
        if self.ranks is not None and self.ranks < 1:
            raise InputError(
                f"The number of ranks must be at least 1, not {self.ranks}",
                "`workbench delete` deletes the cluster, and `workbench resize --nodes 0` keeps "
                "one of nodes without any.",
            )
        if self.ranks is not None and self.ranks > MAX_RANKS:
            raise InputError(
                f"{self.ranks} ranks are too many",
                f"ask for at most {MAX_RANKS}, the limit of workbench.",
            )
        if self.nodes is not None and not 0 <= self.nodes <= MAX_NODES:
            raise InputError(
                f"The number of nodes must be from 0 to {MAX_NODES}, not {self.nodes}",
                "0 releases all nodes and keeps the cluster's definition.",
            )

    def __str__(self) -> str:
        if self.nodes is not None:
            return count(self.nodes, "node")
        return count(self.ranks or 0, "rank")


def resize_wish(
    wish: ClusterWish,
    size: Size,
    local: tuple[Host, ...],
    *,
    oversubscribe: bool = False,
    across_zones: bool = False,
) -> ClusterWish:
    """Return the desired state of a cluster that is up, with another size.

    Args:
        local: This machine.
        oversubscribe: Whether so many ranks may share cores.
        across_zones: Whether nodes may be added in other zones from now on.

    Raises:
        InputError: The cluster cannot have that size.
    """
    if size.nodes is None:
        fleet, shares = wish.fleet, oversubscribe
    else:
        fleet, shares = _with_nodes(wish, size.nodes, across_zones), wish.oversubscribe
    world = wished_world(fleet, local, size.ranks or 0, shares)
    return replace(wish, ranks=world.size, oversubscribe=world.oversubscribe, fleet=fleet)


def _with_nodes(wish: ClusterWish, nodes: int, across_zones: bool) -> FleetWish:
    fleet = wish.fleet
    if not fleet.place.has_nodes:
        raise InputError(
            f"Cluster {wish.name!r} runs on this machine alone",
            "change its number of ranks instead.",
        )
    if fleet.place.lists_hosts and nodes > len(fleet.hosts):
        raise InputError(
            f"{count(nodes, 'node')} were requested, but cluster {wish.name!r} has "
            f"{count(len(fleet.hosts), 'host')}",
            "request fewer, or name more hosts with `workbench up --hosts`.",
        )
    if fleet.max_nodes and nodes > fleet.max_nodes:
        raise InputError(
            f"{count(nodes, 'node')} are more than the maximum of {fleet.max_nodes}",
            "request fewer, or raise the maximum with `workbench up --max-nodes`.",
        )
    fewest = min(fleet.min_nodes, max(nodes, 1))
    across = across_zones or fleet.across_zones
    return check_fleet(replace(fleet, nodes=nodes, min_nodes=fewest, across_zones=across))
