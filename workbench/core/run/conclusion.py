"""The conclusion of a run that has ended: computed once, and the same in every view."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from workbench.core.performance.comparison import UNKNOWN_NOISE


@dataclass(frozen=True)
class Conclusion:
    """The results of a run.

    Args:
        values: The last value of every name.
        steps: For each rank the mean seconds per step of each part.
        slowest: The rank that the others waited for; -1 for none.
        says: The verdict and the other sentences on the time of a step.
        noise: Relative variation of the time of a step.
        batch: Examples of all ranks per step; 0 if unknown.
    """

    values: Mapping[str, float] = field(default_factory=dict)
    steps: Mapping[int, Mapping[str, float]] = field(default_factory=dict)
    slowest: int = -1
    says: tuple[str, ...] = ()
    noise: float = UNKNOWN_NOISE
    batch: float = 0.0
