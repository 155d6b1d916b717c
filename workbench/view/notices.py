"""Describe in words which nodes the provider takes back, and when."""

from __future__ import annotations

from collections.abc import Iterable

from workbench.core.fleet.model import Node, NodeState
from workbench.view.phrase import Phrase, phrase


def notice(node: Node, now: float) -> Phrase | None:
    """Return when a node with an interruption notice is reclaimed; None for others.

    Args:
        now: Epoch seconds.
    """
    if not node.reclaimed or node.state is NodeState.GONE:
        return None
    if (left := node.reclaimed - now) < 1:
        return phrase("node %1 is being reclaimed", node.id)
    return phrase("node %1 will be reclaimed in %2", node.id, ("duration", float(round(left))))


def notices(nodes: Iterable[Node], now: float) -> tuple[Phrase, ...]:
    """Return the notices of nodes, in their order."""
    return tuple(said for node in nodes if (said := notice(node, now)) is not None)
