"""A stored prediction of a run, and how to find it once the run has ended."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from enum import StrEnum

from workbench.core.performance.exchange_model import Codec

# Two runs train the same model if their gradients are as many bytes.
SAME = 0.01
# A link is the one that was spoken of if it carries about as much.
SAME_LINK = 0.25
ANY = "*"


class Teller(StrEnum):
    """What made the prediction."""

    PLAN = "plan"
    VERDICT = "verdict"


@dataclass(frozen=True)
class Doing:
    """How a model is trained, as far as it decides what a step takes.

    Args:
        type: Of the nodes; empty where they have none, ``ANY`` where it does not matter.
        nbytes: Of gradients, before any codec.
        batch: Examples of one rank's step.
        bandwidth: Between nodes, bytes a second; 0 when unknown, or of no account.
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
class Foretold:
    """What was said of one way to train.

    Args:
        do: How a person says what is different; empty where it is the size alone.
        seconds: Of a step, which should be between ``low`` and ``high``.
    """

    doing: Doing
    seconds: float
    low: float
    high: float
    do: str = ""

    def holds(self, seconds: float) -> bool:
        """Tell whether what came is within the band."""
        return self.low <= seconds <= self.high


@dataclass(frozen=True)
class Forecasts:
    """What was predicted at one time.

    Args:
        source: Id of the run that it was predicted from; empty where all was said.
        told: Epoch seconds.
    """

    teller: Teller
    source: str
    told: float
    found: tuple[Foretold, ...]


def did(doing: Doing, told: Iterable[Foretold]) -> Foretold | None:
    """Return predictions of what was done; None if nothing was."""
    return next((one for one in told if _is_same(doing, one.doing)), None)


def _is_same(done: Doing, told: Doing) -> bool:
    if told.type not in (ANY, done.type):
        return False
    names = ("nodes", "ranks", "codec", "ours", "stale")
    if any(getattr(done, name) != getattr(told, name) for name in names):
        return False
    # Within one node nobody knows a link, and none matters.
    linked = done.nodes > 1 and done.bandwidth > 0 and told.bandwidth > 0
    near = not linked or _is_near(done.bandwidth, told.bandwidth, SAME_LINK)
    return near and all(
        _is_near(getattr(done, n), getattr(told, n), SAME) for n in ("nbytes", "batch")
    )


def _is_near(one: float, other: float, share: float) -> bool:
    return abs(one - other) <= share * other


def forecasts_json(found: Sequence[Foretold]) -> str:
    """Return the form that the store keeps."""
    return json.dumps([asdict(one) for one in found], separators=(",", ":"))


def forecasts_of(text: str) -> tuple[Foretold, ...]:
    """Return what ``forecasts_json`` was given."""
    found = []
    for values in json.loads(text):
        doing = values.pop("doing")
        made = Doing(**{**doing, "codec": Codec(doing["codec"])})
        found.append(Foretold(made, **values))
    return tuple(found)
