"""Describe in words which nodes the provider takes back, and when."""

from __future__ import annotations

from collections.abc import Iterable

from workbench.core.fleet.model import Node, NodeState
from workbench.core.units import duration


def notice(node: Node, now: float) -> str:
    """Return when a node with an interruption notice is reclaimed; empty for others.

    Args:
        now: Epoch seconds.
    """
    if not node.reclaimed or node.state is NodeState.GONE:
        return ""
    if (left := node.reclaimed - now) < 1:
        return f"node {node.id} is being reclaimed"
    return f"node {node.id} will be reclaimed in {duration(round(left))}"


def notices(nodes: Iterable[Node], now: float) -> tuple[str, ...]:
    """Return the notices of nodes, in their order."""
    return tuple(said for node in nodes if (said := notice(node, now)))
