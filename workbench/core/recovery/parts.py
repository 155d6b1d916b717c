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

from msgspec.structs import replace

from workbench.core.run.rank_protocol import Batch, EventReport, SnapshotSaved

COPIES = 2
_REMEMBERED = 100


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


class PartReports:
    """Counts a snapshot of a divided state once all ranks that write parts have reported theirs.

    Until then it might not outlive the loss of a node.
    """

    def __init__(self) -> None:
        self._heard: dict[tuple[str, int], dict[int, tuple[int, int]]] = {}

    def count(self, batch: Batch) -> Batch:
        """Return a batch without the reports of parts, but for one that completes a snapshot.

        Args:
            batch: It may have come before.
        """
        events = tuple(found for one in batch.events if (found := self._complete(batch, one)))
        return batch if events == batch.events else replace(batch, events=events)

    def _complete(self, batch: Batch, report: EventReport) -> EventReport | None:
        saved = report.event
        if not (isinstance(saved, SnapshotSaved) and saved.reporters):
            return report
        key = batch.run, saved.iteration
        mine, heard = (batch.sequence, saved.nbytes), self._heard.get(key, {})
        if heard.get(batch.rank) != mine:
            if len(heard) == len(saved.reporters):  # that was the run's training before
                heard = {}
            # The last one is the one that completes it, also when it comes again.
            heard = {rank: one for rank, one in heard.items() if rank != batch.rank}
            heard[batch.rank] = mine
            self._heard.pop(key, None)
            self._heard[key] = heard
            if len(self._heard) > _REMEMBERED:
                del self._heard[next(iter(self._heard))]
        if {*heard} != {*saved.reporters} or batch.rank != [*heard][-1]:
            return None
        return replace(
            report, event=replace(saved, nbytes=sum(nbytes for _, nbytes in heard.values()))
        )


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
