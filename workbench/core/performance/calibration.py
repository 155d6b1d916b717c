"""Calibrate predictions with the measured results of earlier ones."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import fmean

# A forecast says something of communication where this share of the step is communication.
LEAST_SHARE = 0.05
# The model is not off by more; what is further off had another cause.
MOST_OFF = 4.0
# For each newer outcome an older one counts less; the model itself counts as one outcome.
FADING = 0.7
_PRIOR = 1.0


@dataclass(frozen=True)
class PredictionOutcome:
    """Seconds of a step.

    Args:
        own: What the rank itself needs of it.
        foretold: By the model, without what was learned.
        real: As it came.
    """

    own: float
    foretold: float
    real: float

    @property
    def off(self) -> float | None:
        """How many times as long as predicted communication took; None where it hardly counts."""
        foretold = self.foretold - self.own
        if foretold < LEAST_SHARE * self.foretold:
            return None
        times = max(0.0, self.real - self.own) / foretold
        return min(MOST_OFF, max(1 / MOST_OFF, times))


@dataclass(frozen=True)
class Correction:
    """How many times as long as by the model communication takes.

    Args:
        count: Outcomes that it was learned from.
    """

    factor: float = 1.0
    count: int = 0


def learned(outcomes: Iterable[PredictionOutcome]) -> Correction:
    """Return what outcomes teach, the newest of which comes first."""
    found = [off for one in outcomes if (off := one.off) is not None]
    weights = [FADING**place for place in range(len(found))]
    total = math.fsum(w * math.log(off) for w, off in zip(weights, found, strict=True))
    return Correction(math.exp(total / (math.fsum(weights) + _PRIOR)), len(found))


def corrected(own: float, foretold: float, correction: Correction) -> float:
    """Return the seconds of a step by the model and by what was learned."""
    return own + correction.factor * max(0.0, foretold - own)


def varied(repeats: Iterable[Sequence[float]], usual: float) -> float:
    """Return the relative standard deviation of what was done more than once.

    Args:
        repeats: Of each thing that was done, the seconds of each time.
        usual: What is likely before anything was repeated; counts as one time.
    """
    squares, degrees = usual**2, 1
    for times in repeats:
        logs = [math.log(one) for one in times if one > 0]
        if len(logs) > 1:
            mean = fmean(logs)
            squares += math.fsum((one - mean) ** 2 for one in logs)
            degrees += len(logs) - 1
    return max(usual, math.sqrt(squares / degrees))
