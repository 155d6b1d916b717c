"""The requested size of a cluster: a number of ranks, or of nodes."""

from __future__ import annotations

from dataclasses import dataclass

from workbench.core.units import count
from workbench.errors import InputError


@dataclass(frozen=True)
class Size:
    """The desired size of a cluster, in ranks or in nodes; 0 nodes keep its definition.

    Raises:
        InputError: Neither was given, or both.
    """

    ranks: int | None = None
    nodes: int | None = None

    def __post_init__(self) -> None:
        if (self.ranks is None) == (self.nodes is None):
            raise InputError("Give one size: a number of ranks or a number of nodes.")

    def __str__(self) -> str:
        if self.nodes is not None:
            return count(self.nodes, "node")
        return count(self.ranks or 0, "rank")
