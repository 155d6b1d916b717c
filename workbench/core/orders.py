"""Keep count of what was bought: what is still to come, what is to be repeated."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from workbench.core.fleet import Purchase

# For as long after a launch a place may not list what it has lent.
LAG_SECONDS = 60.0


class Outcome(StrEnum):
    """What came of a purchase."""

    WRITTEN = "written"
    BOUGHT = "bought"
    REFUSED = "refused"
    LOST = "lost"


@dataclass(frozen=True)
class Order:
    """A purchase, and what came of it.

    Args:
        climb: Number of the ascent of the ladder that it belongs to, from 1.
        at: Epoch seconds at which it was written down, and then of the last answer.
        outcome: ``written`` for as long as no answer is known; ``lost`` when nothing came of it.
        tries: Calls that were made with this token.
        kind: Why it was refused; one of ``core.refusal.Kind``.
        message: Why it was refused, in a sentence.
    """

    purchase: Purchase
    climb: int
    at: float
    outcome: Outcome = Outcome.WRITTEN
    tries: int = 1
    kind: str = ""
    message: str = ""
