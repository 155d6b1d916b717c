"""Calibrate predictions with the measured results of earlier ones."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import fmean

# A prediction tests the communication model if this share of the step is communication.
LEAST_SHARE = 0.05
# The model's largest error; a larger deviation had another cause.
MOST_OFF = 4.0
# Weight of an outcome relative to the next newer one; the model itself counts as one outcome.
FADING = 0.7
_PRIOR = 1.0


@dataclass(frozen=True)
class PredictionOutcome:
    """The predicted and the measured duration of a step, in seconds.

    Args:
        own: The rank's own work in it.
        predicted: Predicted by the model, without corrections.
        real: Measured.
    """

    own: float
    predicted: float
    real: float

    @property
    def off(self) -> float | None:
        """Return measured over predicted communication; None if there was too little of it."""
        predicted = self.predicted - self.own
        if predicted < LEAST_SHARE * self.predicted:
            return None
        times = max(0.0, self.real - self.own) / predicted
        return min(MOST_OFF, max(1 / MOST_OFF, times))


@dataclass(frozen=True)
class Correction:
    """A factor on the model's time for communication.

    Args:
        count: Number of outcomes that it was learned from.
    """

    factor: float = 1.0
    count: int = 0


def learn_correction(outcomes: Iterable[PredictionOutcome]) -> Correction:
    """Return the correction learned from outcomes, which come newest first."""
    found = [off for one in outcomes if (off := one.off) is not None]
    weights = [FADING**place for place in range(len(found))]
    total = math.fsum(w * math.log(off) for w, off in zip(weights, found, strict=True))
    return Correction(math.exp(total / (math.fsum(weights) + _PRIOR)), len(found))


def correct_seconds(own: float, predicted: float, correction: Correction) -> float:
    """Return the corrected seconds of a step."""
    return own + correction.factor * max(0.0, predicted - own)


def measure_variation(repeats: Iterable[Sequence[float]], usual: float) -> float:
    """Return the relative standard deviation of repeated measurements.

    Args:
        repeats: For each repeated thing, the seconds of each time.
        usual: The prior value, which counts as one repetition.
    """
    squares, degrees = usual**2, 1
    for times in repeats:
        logs = [math.log(one) for one in times if one > 0]
        if len(logs) > 1:
            mean = fmean(logs)
            squares += math.fsum((one - mean) ** 2 for one in logs)
            degrees += len(logs) - 1
    return max(usual, math.sqrt(squares / degrees))
