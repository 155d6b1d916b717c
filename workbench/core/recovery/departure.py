"""Decide when a run leaves its ranks: for those of another size, or because the nodes go.

An end that is known before is a stop, not a crash: the run is asked in time to leave at a boundary,
so that its last snapshot is written and copied before the nodes go.
"""

from __future__ import annotations

import math
from collections.abc import Collection
from dataclasses import dataclass, replace
from enum import StrEnum

from workbench.core.cluster.model import ResizeAt
from workbench.core.fleet.node_health import LEAST_LEAD_SECONDS
from workbench.core.recovery.snapshots import REDONE_SECONDS
from workbench.core.run.model import RunFact
from workbench.core.units import count
from workbench.errors import InputError

LEAD_SECONDS = 3.0
"""The ranks are asked to leave at an epoch's end this long before it, or earlier."""

LEAD_EPOCHS = 0.1
"""Or this part of an epoch before it, since epochs do not all take the same time."""

ASKING_SECONDS = 2.0
"""From the question where the ranks are until all of them have the boundary; measured below 1 s."""

STEPS_TO_BOUNDARY = 4
"""The boundary is a few steps ahead of the rank that is furthest; see ``core.recovery.life``."""

INTERRUPT_SECONDS = 3.0
"""Ranks that have been interrupted are given up after this, together with their world."""

UNMEASURED_SECONDS = 30.0
"""A run takes so long to train on other ranks, until its own beginning was measured."""

SAFETY = 2.0
"""A move may take so many times as long as what was measured."""

TIME_IS_OVER = "the cluster's time to live is over"
NO_NODES = "its cluster has no nodes now"

_ROUNDING = 1e-6


class Departure(StrEnum):
    """What a run does about another size now."""

    DUE = "due"
    LATER = "later"
    NEVER = "never"


@dataclass(frozen=True)
class EpochPace:
    """How fast the epochs of one attempt pass.

    Args:
        first: Epochs done when this was first known; -1 before.
        began: When that was, by the steady clock.
        epoch: Epochs done when they were last known.
        seen: When that was.
    """

    first: float = -1.0
    began: float = 0.0
    epoch: float = 0.0
    seen: float = 0.0

    def at(self, epoch: float, now: float) -> EpochPace:
        """Return it with the epochs that are done now; 0 if they are unknown."""
        if not epoch or epoch == self.epoch:
            return self
        if self.first < 0:
            return EpochPace(epoch, now, epoch, now)
        return replace(self, epoch=epoch, seen=now)

    def is_near(self, now: float) -> bool:
        """Return whether the ranks are to be asked now to leave at the end of this epoch."""
        if self.first < 0:
            return False
        left = math.floor(self.epoch + _ROUNDING) + 1 - self.epoch
        passed, seconds = self.epoch - self.first, self.seen - self.began
        if passed <= 0 or seconds <= 0:
            return left <= LEAD_EPOCHS
        rate = passed / seconds
        return left <= LEAD_EPOCHS or left / rate - (now - self.seen) <= LEAD_SECONDS


def has_no_epochs(fact: RunFact) -> bool:
    """Return whether a run trains without reporting epochs."""
    return fact.iteration > 0 and not fact.epoch


def departure(
    at: ResizeAt, fact: RunFact, pace: EpochPace, now: float, *, is_reclaimed: bool
) -> Departure:
    """Return what a run does about another size now.

    Args:
        at: When it was asked to move.
        now: By the steady clock.
        is_reclaimed: Whether the provider takes one of its nodes back: then it leaves at once.
    """
    if at is ResizeAt.STEP or is_reclaimed:
        return Departure.DUE
    if at is ResizeAt.END or has_no_epochs(fact):
        return Departure.NEVER
    return Departure.DUE if pace.is_near(now) else Departure.LATER


def lead_seconds(grace: float, rate: float, copy: float) -> float:
    """Return how long before its nodes go a run is asked to stop.

    Args:
        grace: Seconds after which ranks that have not come to the boundary are interrupted.
        rate: Boundaries per second; 0 if unknown.
        copy: Seconds that the copy of its last snapshot takes.
    """
    steps = ASKING_SECONDS + STEPS_TO_BOUNDARY / rate if rate > 0 else math.inf
    return min(grace, steps) + INTERRUPT_SECONDS + copy


def notice_lead(start: float, begin: float, stop: float) -> float:
    """Return how long before the end of a node with a notice its ranks are to leave it, at least.

    Args:
        start: Seconds that a world takes to start.
        begin: Seconds from a run's submission to its first step; infinite if unknown.
        stop: Seconds that it takes to leave; see ``lead_seconds``.
    """
    begin = begin if math.isfinite(begin) else UNMEASURED_SECONDS
    return max(LEAST_LEAD_SECONDS, SAFETY * (start + begin + stop))


def is_saved_for(noticed: Collection[str], known: Collection[str], age: float) -> bool:
    """Return whether a run is to save now because of notices, and to train on.

    A node may be taken before the end that its notice states, and then only what was saved is kept.
    Notices of one loss come within seconds, and one snapshot is for all of them.

    Args:
        noticed: Ids of the run's nodes that have a notice.
        known: Ids of those that had one before.
        age: Seconds since the run has saved, or was asked to.
    """
    return age >= REDONE_SECONDS and not {*noticed} <= {*known}


def shortened_grace(grace: float, left: float, copy: float) -> float:
    """Return the grace of a run whose nodes go after ``left`` seconds, whatever it does.

    Where that is very soon, a boundary is worth more than the wait for interrupted ranks.
    """
    rest = max(0.0, left - copy)
    return min(grace, max(rest - INTERRUPT_SECONDS, rest / 2))


def why_it_waits(at: ResizeAt, fact: RunFact, ranks: int) -> str:
    """Return when a run moves that does not move yet, as a sentence.

    Args:
        ranks: The number of ranks that are wanted.
    """
    wanted = count(ranks, "rank")
    if at is ResizeAt.EPOCH and not has_no_epochs(fact):
        return f"It moves to {wanted} at the end of this epoch."
    if at is ResizeAt.EPOCH:
        return f"It reports no epochs, so the change to {wanted} waits until it has ended."
    return f"The change to {wanted} waits until it has ended."


def moving_iteration(at: ResizeAt, fact: RunFact) -> int:
    """Return the iteration after which a run moves that does not move yet; its last one if unknown.

    Args:
        at: When it was asked to move; not at its next step.
    """
    each = fact.iteration / fact.epoch if fact.epoch > 0 else 0.0
    if at is ResizeAt.EPOCH and not has_no_epochs(fact):
        ends = each * (math.floor(fact.epoch + _ROUNDING) + 1)
    else:
        ends = fact.iterations_total or each * fact.epochs_total
    return max(fact.iteration, math.ceil(ends - _ROUNDING))


def check_epochs(at: ResizeAt, name: str, fact: RunFact) -> None:
    """Refuse to wait for the end of an epoch of a run that reports none.

    Args:
        name: Of the run that trains now.

    Raises:
        InputError: It has trained, and has reported no epoch.
    """
    if at is ResizeAt.EPOCH and has_no_epochs(fact):
        raise InputError(
            f"Run {name!r} reports no epochs, so a resize cannot wait for the end of one",
            "use --at step, or --at end.",
        )
