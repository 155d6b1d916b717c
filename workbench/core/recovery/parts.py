"""Decide which nodes save which parts of a state that is divided among the ranks of a run.

Such a state, that of a sharded model, is on no node as a whole. A piece is what a rank has of one
array. The pieces that a node is the first to have are a part of the state. A part is saved on two
nodes, so that a node may be lost: on those that have its pieces anyway, as replicas do, and else on
a neighbour, which is sent them.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

COPIES = 2


@dataclass(frozen=True)
class StatePart:
    """What is saved together of a divided state.

    Args:
        pieces: Their names.
        nodes: Indices of the nodes that save it.
    """

    pieces: tuple[str, ...]
    nodes: tuple[int, ...]


def divide(held: Sequence[Mapping[str, int]]) -> tuple[StatePart, ...]:
    """Return the parts of a divided state; empty if nothing is divided.

    Args:
        held: By node, the bytes of each piece that its ranks have.
    """
    firsts: dict[str, int] = {}
    for node, pieces in enumerate(held):
        for name in pieces:
            firsts.setdefault(name, node)
    owned: dict[int, list[str]] = {}
    for name, node in firsts.items():
        owned.setdefault(node, []).append(name)
    return tuple(
        StatePart(tuple(sorted(names)), _savers(held, node, names))
        for node, names in sorted(owned.items())
    )


def _savers(held: Sequence[Mapping[str, int]], node: int, names: Sequence[str]) -> tuple[int, ...]:
    """Return which nodes save pieces that ``node`` is the first to have."""
    by_themselves = [at for at, pieces in enumerate(held) if all(one in pieces for one in names)]
    others = [at for at in range(len(held)) if at not in by_themselves]

    def preference(at: int) -> tuple[int, int]:
        # The one that is sent least; of equal ones the next, so that each has one more part.
        return -sum(held[at].get(one, 0) for one in names), (at - node) % len(held)

    missing = max(0, COPIES - len(by_themselves))
    return (*by_themselves, *sorted(others, key=preference)[:missing])


def fatal_losses(savers: Sequence[Sequence[int]], nodes: int, lost: int) -> tuple[int, int]:
    """Return how many sets of lost nodes take a part with them, and how many sets there are.

    Args:
        savers: The nodes that save each part.
        lost: How many nodes are lost at the same time.
    """
    total = math.comb(nodes, lost)
    fatal = sum(
        any(set(one) <= {*gone} for one in savers) for gone in combinations(range(nodes), lost)
    )
    return fatal, total
