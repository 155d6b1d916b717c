"""Decide how a run leaves its ranks: together at a boundary, freed by force, or with its world.

A run that is asked to stop goes through: ask every rank where it is, name a boundary that none
has passed, wait for the grace, interrupt, end the world. A run of which a rank failed goes
through: tell the reader at once, let the others end by themselves for a moment (all of them may
have failed alike), interrupt those that are stuck, make fresh communicators, or end the world.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from workbench.core.report import Ending

SETTLE_SECONDS = 0.3
FREE_SECONDS = 1.2
INTERRUPT_SECONDS = 3.0
PULSE_PATIENCE = 0.5
MARGIN_SECONDS = 0.3
EXIT_SECONDS = 0.5
WAIT_WORTH_TELLING = 5.0


@dataclass(frozen=True)
class RankStanding:
    """One rank of a run.

    Args:
        boundary: Boundaries passed, by the last pulse.
        rate: Boundaries a second.
        heard: When that pulse came, in epoch seconds.
        call: The MPI call that it was in.
        waiting: How long it had been in that call, in seconds.
        where: The user's line that it was at.
        begun: Whether anything was heard of it.
        ending: How it left, once it has.
    """

    begun: bool = False
    boundary: int = 0
    rate: float = 0.0
    heard: float = 0.0
    call: str = ""
    waiting: float = 0.0
    where: str = ""
    ending: Ending | None = None


@dataclass(frozen=True)
class Active:
    """A run that is on, and what has been done to end it. Moments are 0 until they come."""

    run: str
    ranks: tuple[RankStanding, ...]
    grace: float
    fault_tolerant: bool
    stop_wished: float = 0.0
    pulses_asked: float = 0.0
    stop_sent: float = 0.0
    failed: float = 0.0
    interrupted: float = 0.0
    recovering: float = 0.0
    recovered: bool | None = None

    @property
    def remaining(self) -> tuple[int, ...]:
        """The ranks that have not left."""
        return tuple(n for n, rank in enumerate(self.ranks) if rank.ending is None)


@dataclass(frozen=True)
class AskPulses:
    """Ask all ranks where they are."""


@dataclass(frozen=True)
class SendStop:
    """Tell all ranks to leave at a boundary."""

    boundary: int


@dataclass(frozen=True)
class Free:
    """Interrupt ranks."""

    ranks: tuple[int, ...]


@dataclass(frozen=True)
class Cancel:
    """Have the ranks skip the run: none of them has begun it."""


@dataclass(frozen=True)
class Fail:
    """Tell the reader that the run has failed, and of which rank."""

    rank: int
    error: str
    traceback: str


@dataclass(frozen=True)
class Recover:
    """Make fresh communicators."""


@dataclass(frozen=True)
class GiveUpWorld:
    """End the world: some of its ranks cannot be freed."""

    reason: str


@dataclass(frozen=True)
class Release:
    """The run is over and its world can take the next one."""


Step = AskPulses | SendStop | Free | Cancel | Fail | Recover | GiveUpWorld | Release


def next_steps(active: Active, now: float) -> list[Step]:
    """Return what to do now about a run."""
    if not active.failed and (failure := first_failure(active, now)) is not None:
        return [failure]
    if not active.remaining:
        return _all_left(active)
    if active.failed:
        return _free_after_failure(active, now)
    if active.stop_wished:
        return _stop(active, now)
    return []


def first_failure(active: Active, now: float) -> Fail | None:
    """Return the failure to show: a rank's own before the echo of another's."""
    endings = [(n, r.ending) for n, r in enumerate(active.ranks) if r.ending is not None]
    failed = [(n, e) for n, e in endings if e.state == "failed"]
    own = [(n, e) for n, e in failed if not e.secondary]
    if own:
        rank, ending = own[0]
        return Fail(rank, ending.error, ending.traceback)
    if failed and not active.remaining:
        rank, ending = failed[0]
        return Fail(rank, ending.error, ending.traceback)
    return _abandoned(active, now)


def waiting_message(active: Active) -> str:
    """Return who waits in MPI, since when, and what the others do; empty if nobody does long."""
    stuck = [
        (n, rank)
        for n, rank in enumerate(active.ranks)
        if rank.ending is None and rank.call and rank.waiting >= WAIT_WORTH_TELLING
    ]
    if not stuck:
        return ""
    calls = sorted({rank.call for _, rank in stuck})
    longest = max(rank.waiting for _, rank in stuck)
    who = ranks_text([n for n, _ in stuck]).capitalize()
    verb = "waits" if len(stuck) == 1 else "wait"
    text = f"{who} {verb} in {' and '.join(calls)} since {longest:.0f} s"
    told = {n for n, _ in stuck}
    others = [
        f"rank {n} has ended" if rank.ending else f"rank {n} is at {rank.where or 'work'}"
        for n, rank in enumerate(active.ranks)
        if n not in told
    ]
    return "; ".join([text, *others]) + "."


def ranks_text(ranks: Sequence[int]) -> str:
    """Return ``rank 3`` or ``ranks 0, 2``."""
    return f"rank{'s' * (len(ranks) > 1)} {', '.join(map(str, ranks))}"


def _all_left(active: Active) -> list[Step]:
    if active.recovering:
        if active.recovered is None:
            return []
        return [Release()] if active.recovered else [GiveUpWorld("it could not be recovered")]
    if not (active.failed or active.interrupted) or _alike(active):
        return [Release()]
    if not active.fault_tolerant:
        return [GiveUpWorld("this MPI cannot recover from a rank that left alone")]
    return [Recover()]


def _alike(active: Active) -> bool:
    """Whether all ranks left in the same way, so that no message between them is pending."""
    endings = [rank.ending for rank in active.ranks if rank.ending is not None]
    same = {(e.state, e.traceback) for e in endings}
    return len(same) == 1 and not active.interrupted and not endings[0].secondary


def _free_after_failure(active: Active, now: float) -> list[Step]:
    if not active.interrupted:
        return [Free(active.remaining)] if now - active.failed >= SETTLE_SECONDS else []
    if now - active.interrupted >= FREE_SECONDS:
        return [GiveUpWorld(f"{ranks_text(active.remaining)} did not leave the failed cell")]
    return []


def _stop(active: Active, now: float) -> list[Step]:
    if not any(rank.begun for rank in active.ranks):
        return [Cancel()]
    if active.interrupted:
        if now - active.interrupted >= INTERRUPT_SECONDS:
            return [GiveUpWorld(f"{ranks_text(active.remaining)} did not stop when interrupted")]
        return []
    if now - active.stop_wished >= active.grace:
        return [Free(active.remaining)]
    if not active.pulses_asked:
        return [AskPulses()]
    if not active.stop_sent and _pulses_fresh(active, now):
        return [SendStop(_boundary(active))]
    return []


def _pulses_fresh(active: Active, now: float) -> bool:
    fresh = all(active.ranks[n].heard >= active.pulses_asked for n in active.remaining)
    return fresh or now - active.pulses_asked >= PULSE_PATIENCE


def _boundary(active: Active) -> int:
    """Return a boundary that no rank will have passed when the message arrives."""
    furthest = max(rank.boundary for rank in active.ranks)
    rate = max(rank.rate for rank in active.ranks)
    return furthest + 2 + math.ceil(rate * MARGIN_SECONDS)


def _abandoned(active: Active, now: float) -> Fail | None:
    """Return a failure if a rank left by ``sys.exit()`` and another waits for it in MPI."""
    if active.stop_wished:
        return None
    exited = [n for n, r in enumerate(active.ranks) if r.ending is not None and r.ending.exited]
    stuck = [
        n
        for n in active.remaining
        if active.ranks[n].call and active.ranks[n].waiting >= EXIT_SECONDS
    ]
    if not exited or not stuck:
        return None
    call = active.ranks[stuck[0]].call
    error = f"left by sys.exit() while {ranks_text(stuck)} waited for it in {call}"
    return Fail(exited[0], error, f"SystemExit: {error}")
