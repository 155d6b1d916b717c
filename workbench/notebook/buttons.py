"""Decide which buttons of a cluster are enabled, and why the others are not.

``extension/src/sizing.ts`` does the same for the panel; both are tested with the cases of
``extension/src/__tests__/cluster.json``.
"""

from __future__ import annotations

from dataclasses import dataclass

from workbench.core.cluster.model import ClusterState, ClusterWish
from workbench.core.fleet.model import Provider

_RUNNING = frozenset({ClusterState.READY, ClusterState.RESIZING, ClusterState.PAUSED})


@dataclass(frozen=True)
class Refusals:
    """Why each button is disabled; empty if it is enabled."""

    start: str = ""
    resize: str = ""
    delete: str = ""


def refusals(wish: ClusterWish | None, state: ClusterState, number: int | None) -> Refusals:
    """Return why each button is disabled now.

    Args:
        state: The state as displayed.
        number: The number of ranks or nodes in the box; None if it is not valid.
    """
    return Refusals(
        start=_why_not_start(wish, state, number),
        resize=_why_not_resize(wish, state, number),
        delete=_why_not_delete(wish, state),
    )


def _why_not_start(wish: ClusterWish | None, state: ClusterState, number: int | None) -> str:
    if wish is not None and wish.up and state is not ClusterState.FAILED:
        is_starting = state is ClusterState.STARTING
        return "The cluster is starting." if is_starting else "The cluster is running."
    if number is None:
        return "The number is out of range."
    return "" if number else "With 0 nodes there is nothing to start."


def _why_not_resize(wish: ClusterWish | None, state: ClusterState, number: int | None) -> str:
    if wish is None or not wish.up:
        is_stopping = state is ClusterState.STOPPING
        return "The cluster is being deleted." if is_stopping else "The cluster is not running."
    has_nodes = wish.fleet.provider is not Provider.THIS_MACHINE
    # A cluster that waits for capacity can be made smaller.
    if state is ClusterState.STARTING and not has_nodes:
        return "The cluster is starting."
    if state not in _RUNNING | {ClusterState.STARTING}:
        return "The cluster is not running."
    if number is None:
        return "The number is out of range."
    asked = wish.fleet.nodes if has_nodes else wish.ranks
    return "Type another number first." if number == asked else ""


def _why_not_delete(wish: ClusterWish | None, state: ClusterState) -> str:
    if wish is not None and wish.up:
        return ""
    if state is ClusterState.STOPPING:
        return "The cluster is being deleted."
    return "The cluster is not running." if state is ClusterState.DOWN else ""
