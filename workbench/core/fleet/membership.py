"""Decide which node is the head, which nodes may carry a world, and which go first."""

from __future__ import annotations

import ipaddress
from collections.abc import Collection, Iterable

from workbench.core.fleet.model import Node, NodeState

# A fleet that may grow shrinks to its least when nothing has been on for so long.
IDLE_SECONDS = 600.0

_PLACE = {state: place for place, state in enumerate(NodeState)}
_WITH_DATA = (NodeState.READY, NodeState.JOINED)


def elect_head(nodes: Iterable[Node]) -> Node:
    """Return the node whose address is lowest as a number: .4 comes before .10."""
    return min(nodes, key=numeric)


def members(nodes: Iterable[Node], open: Collection[str]) -> tuple[Node, ...]:
    """Return the nodes on which a world may stand, the head first.

    Args:
        open: Ids of the nodes to which a verified session stands.
    """
    able = [node for node in nodes if has_data(node) and node.id in open and not node.failed]
    return tuple(sorted(able, key=lambda node: (not node.head, numeric(node))))


def has_data(node: Node) -> bool:
    """Tell whether a node may join, or has joined."""
    return node.state in _WITH_DATA


def by_worth(nodes: Iterable[Node], used: Collection[str]) -> list[Node]:
    """Return the nodes in the order in which they are kept; the last one goes first.

    What failed goes before all others; the head stays longest, then what carries a world, then
    what came furthest, then the cheaper and the older.
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
    """Return how many nodes there are to be now.

    A fleet that may not grow has as many as were asked for. One that may grows by a node for
    each run that waits, keeps what it grew to while runs are on, and shrinks to its least when
    it has been idle; without runs it begins with what was asked for.

    Args:
        there: How many there are.
        waiting: Runs that wait.
        idle: Seconds for which no run has been on or waited.
    """
    if not most or not nodes:
        return nodes
    if waiting:
        wished = max(nodes + waiting, there)
    else:
        wished = least if idle >= IDLE_SECONDS else max(nodes, there)
    return max(min(wished, most), min(least, most))


def numeric(node: Node) -> tuple[int, int, str]:
    """Return what orders nodes by their addresses: numbers first, as numbers."""
    try:
        address = ipaddress.ip_address(node.address)
    except ValueError:
        return 9, 0, node.address or node.id
    return address.version, int(address), node.id
