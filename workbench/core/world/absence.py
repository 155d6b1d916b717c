"""Decide whether a node that does not answer this computer is lost, or only out of its reach."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

from workbench.core.units import duration

PATIENCE_SECONDS = 600.0
"""How long ranks on hosts without a lease wait for this computer."""


@dataclass(frozen=True)
class Absence:
    """A node that does not answer.

    Args:
        since: When it began; moments are seconds on one clock.
        closed: When the session with it was lost; infinite while that is only silent.
        answers: Whether each other node that answers this computer reaches it, by address; None
            while that is being found out.
    """

    since: float
    closed: float = math.inf
    answers: Mapping[str, bool | None] = field(default_factory=dict)


def why_lost(absence: Absence, patience: float, now: float) -> str:
    """Return why a node is lost, as a clause; empty while it may come back.

    It is lost if others answer this computer, and none of them reaches it. Where none answers, and
    where one reaches it, the link is broken: its ranks train on, for as long as they wait.

    Args:
        patience: Seconds that its ranks wait for this computer.
    """
    if now < absence.closed:
        return ""
    if now - absence.closed > patience:
        return f"it has not answered for {duration(patience)}"
    found = [*absence.answers.values()]
    if found and not any(one is None or one for one in found):
        return "the ssh session with it was lost"
    return ""
