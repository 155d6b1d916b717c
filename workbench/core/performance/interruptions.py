"""The share of time that interruptions by a provider cost."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from workbench.core.fleet.cost import HOUR

if TYPE_CHECKING:
    from workbench.core.performance.step_grid import Array


@dataclass(frozen=True)
class Interruptions:
    """The cost of interruptions by the provider.

    Args:
        rate: Interruptions of one node per hour.
        seconds: Lost by all nodes per interruption: hand-over, and the steps since the last
            snapshot.
    """

    rate: float = 0.01
    seconds: float = 60.0

    def overhead(self, nodes: Array) -> Array:
        """Return the expected share of time that is lost, for each number of nodes."""
        return nodes * self.share_lost(1)

    def share_lost(self, nodes: int) -> float:
        """Return the expected share of time that is lost on so many nodes."""
        return nodes * self.rate * self.seconds / HOUR
