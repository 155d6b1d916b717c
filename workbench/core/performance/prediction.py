"""A stored prediction of a run, and its comparison with a run that has ended."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

from workbench.core.performance.exchange_model import Codec

# Two runs train the same model if the sizes of their gradients agree to this.
SAME = 0.01
# A link is the predicted one if its bandwidth agrees to this.
SAME_LINK = 0.25
ANY = "*"


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
