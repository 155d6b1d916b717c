"""A stored prediction, its comparison with a run that has ended, and what that corrects."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from statistics import fmean

from workbench.core.performance.exchange_model import Codec

# A prediction tests the communication model if this share of the step is communication.
LEAST_SHARE = 0.05
# The model's largest error; a larger deviation had another cause.
MOST_OFF = 4.0
# Weight of an outcome relative to the next newer one; the model itself counts as one outcome.
FADING = 0.7
_PRIOR = 1.0

# Two runs train the same model if the sizes of their gradients agree to this.
SAME = 0.01
# A link is the predicted one if its bandwidth agrees to this.
SAME_LINK = 0.25
ANY = "*"


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


class Predictor(StrEnum):
    """What made a prediction."""

    PLAN = "plan"
    VERDICT = "verdict"


@dataclass(frozen=True)
class TrainingSetup:
    """The configuration of a training, as far as it determines the time of a step.

    Args:
        type: Of the nodes; empty if they have none, ``ANY`` if it does not matter.
        nbytes: Of gradients, before any codec.
        batch: Examples per step of one rank.
        bandwidth: Between nodes, in bytes per second; 0 if unknown or irrelevant.
        ours: Whether our communicator carries the gradients.
        stale: Whether updates use the gradients of the step before.
    """

    type: str
    nodes: int
    ranks: int
    nbytes: float
    batch: float
    codec: Codec = Codec.NONE
    bandwidth: float = 0.0
    ours: bool = True
    stale: bool = False


@dataclass(frozen=True)
class PredictedStep:
    """The prediction for one configuration.

    Args:
        do: The change for the user; empty if only the size differs.
        seconds: Per step; should be between ``low`` and ``high``.
    """

    doing: TrainingSetup
    seconds: float
    low: float
    high: float
    do: str = ""

    def holds(self, seconds: float) -> bool:
        """Return whether a measured time is within the band."""
        return self.low <= seconds <= self.high


@dataclass(frozen=True)
class Forecasts:
    """The predictions made at one time.

    Args:
        source: Id of the run that they were made from; empty without a run.
        time: Epoch seconds.
    """

    predictor: Predictor
    source: str
    time: float
    found: tuple[PredictedStep, ...]


def prediction_for(
    doing: TrainingSetup, predicted: Iterable[PredictedStep]
) -> PredictedStep | None:
    """Return the prediction for a configuration that was run; None if there is none."""
    return next((one for one in predicted if _is_same(doing, one.doing)), None)


def _is_same(done: TrainingSetup, predicted: TrainingSetup) -> bool:
    if predicted.type not in (ANY, done.type):
        return False
    names = ("nodes", "ranks", "codec", "ours", "stale")
    if any(getattr(done, name) != getattr(predicted, name) for name in names):
        return False
    # Within one node the link is unknown, and does not matter.
    linked = done.nodes > 1 and done.bandwidth > 0 and predicted.bandwidth > 0
    near = not linked or _is_near(done.bandwidth, predicted.bandwidth, SAME_LINK)
    return near and all(
        _is_near(getattr(done, n), getattr(predicted, n), SAME) for n in ("nbytes", "batch")
    )


def _is_near(one: float, other: float, share: float) -> bool:
    return abs(one - other) <= share * other


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
