"""Decide which node is the head, which nodes may carry a world, and which end first."""

from __future__ import annotations

import ipaddress
from collections.abc import Collection, Iterable

from workbench.core.fleet.model import Node, NodeState

# A fleet that may grow shrinks to its minimum after so many idle seconds.
IDLE_SECONDS = 600.0

_PLACE = {state: place for place, state in enumerate(NodeState)}
_WITH_DATA = (NodeState.READY, NodeState.JOINED)


def elect_head(nodes: Iterable[Node]) -> Node:
    """Return the node whose address is lowest as a number: .4 comes before .10."""
    return min(nodes, key=numeric)


def members(nodes: Iterable[Node], open: Collection[str], most: int) -> tuple[Node, ...]:
    """Return the nodes that may carry a world, the head first.

    Of more than ``most``, those with a notice are left out, the one that ends first before others.

    Args:
        open: Ids of the nodes with a verified session.
    """
    able = [node for node in nodes if has_data(node) and node.id in open and not node.failed]
    noticed = sorted((node for node in able if node.reclaimed), key=lambda node: node.reclaimed)
    for node in noticed[: max(0, len(able) - most)]:
        able.remove(node)
    return tuple(sorted(able, key=lambda node: (not node.head, numeric(node))))


def has_data(node: Node) -> bool:
    """Return whether a node may join, or has joined."""
    return node.state in _WITH_DATA


def by_worth(nodes: Iterable[Node], used: Collection[str]) -> list[Node]:
    """Return the nodes in the order in which they are kept; the last one ends first.

    Failed nodes end first; the head is kept longest, then nodes with a world, then those that have
    come furthest, then the cheaper and the older ones.
    """
    return sorted(
        nodes,
        key=lambda node: (
            node.failed,
            not node.head,
            node.id not in used,
            -_PLACE[node.state],
            node.price,
            node.launched,
            numeric(node),
        ),
    )


def wished_nodes(
    nodes: int, least: int, most: int, *, there: int, waiting: int, idle: float
) -> int:
    """Return the desired number of nodes.

    A fleet that may not grow has the requested number. One that may grows by a node for each
    waiting run, keeps its size while runs are active, and shrinks to its minimum when it has been
    idle; before the first run it has the requested number.

    Args:
        there: The present number of nodes.
        waiting: Number of waiting runs.
        idle: Seconds with nothing to do.
    """
    if not most or not nodes:
        return nodes
    if waiting:
        wished = max(nodes + waiting, there)
    else:
        wished = least if idle >= IDLE_SECONDS else max(nodes, there)
    return max(min(wished, most), min(least, most))


def numeric(node: Node) -> tuple[int, int, str]:
    """Return a key that sorts nodes by their addresses: numeric ones first, as numbers."""
    try:
        address = ipaddress.ip_address(node.address)
    except ValueError:
        return 9, 0, node.address or node.id
    return address.version, int(address), node.id
