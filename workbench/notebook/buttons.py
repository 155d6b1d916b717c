"""Decide which buttons of a cluster make sense."""

from __future__ import annotations

from dataclasses import dataclass

from workbench.core.cluster import ClusterFact, ClusterState, ClusterWish
from workbench.core.fleet import Place

_SIZED = frozenset({ClusterState.READY, ClusterState.RESIZING, ClusterState.PAUSED})


@dataclass(frozen=True)
class Buttons:
    """Which buttons make sense."""

    start: bool
    resize: bool
    stop: bool
    extend: bool = False


def sensible(
    wish: ClusterWish | None, fact: ClusterFact, ranks: int, nodes: int | None = None
) -> Buttons:
    """Return the buttons that make sense.

    Args:
        ranks: The number that stands in the box, for a cluster of this machine.
        nodes: The number that stands in the box, for one of nodes.
    """
    wanted = wish is not None and wish.up
    there = fact.state is not ClusterState.DOWN
    if wish is None or wish.fleet.place is Place.LOCAL:
        news, sized = wish is not None and ranks != wish.ranks, fact.state in _SIZED
    else:
        # Who waits for capacity may want less of it.
        news = nodes is not None and nodes != wish.fleet.nodes
        sized = fact.state in _SIZED | {ClusterState.STARTING}
    return Buttons(
        start=not wanted or fact.state in (ClusterState.DOWN, ClusterState.FAILED),
        resize=wanted and sized and news,
        stop=wanted or (there and fact.state is not ClusterState.STOPPING),
        extend=wanted and wish is not None and wish.fleet.expires > 0,
    )
