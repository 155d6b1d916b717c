"""Decide how a run leaves its ranks: together at a boundary, by force, or with its world.

Every turn of the supervisor asks ``next_steps``, which compares what the ranks have reported with
what was already done. A step is returned once; the fields of ``Active`` say that it was taken. ::

    a stop was requested                     a rank failed
            │                                      │
        AskPulses                                Fail       the reader sees it at once
            │ every rank answered                  │ SETTLE_SECONDS: all may fail alike
        SendStop: a boundary that                  │
            │ no rank has passed                   │
            │ all left ──▶ ReleaseWorld            │ all left ──▶ Recover, if some are unlike
            │ the grace is over                    │ some are stuck in MPI or in the user's code
            └──────────────▶ Free ◀────────────────┘
                              │ all left ──▶ Recover ──▶ ReleaseWorld
                              │ its time is over, or this MPI cannot recover
                              └──▶ GiveUpWorld

The ranks of a script end with it, as processes do: none is freed for another run. ::

    all left ──▶ AwaitEnd: they run what the script leaves to its exit, and end by themselves
        │             └──▶ GiveUpWorld after LEAVING_SECONDS
        └──▶ GiveUpWorld, if one failed or was interrupted: the others may wait for it in MPI

The boundary of ``SendStop`` has a margin: a rank that passed it before the message came would
leave at its next boundary, and the others would wait for it until the grace is over. ``Free`` can
leave messages between ranks pending, so new communicators are made before the world takes the
next run. Where MPI cannot revoke a communicator, the world ends in place of that.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from workbench.core.run.rank_protocol import Ending, Pulse

SETTLE_SECONDS = 0.3
FREE_SECONDS = 1.2
INTERRUPT_SECONDS = 3.0
PULSE_PATIENCE = 0.5
# How long a rank that has left may be silent, and how long it may take to send its output.
TELLING_SECONDS = 10.0
TELLING_MOST_SECONDS = 600.0
MARGIN_SECONDS = 0.3
# A rank that computes sends a pulse each second; one that is silent for longer is blocked.
STALE_MOST_SECONDS = 2.0
EXIT_SECONDS = 0.5
# An engine that is free begins a run in milliseconds; within this time it is sent twice more.
DEAF_SECONDS = 12.0
IDLE_PAUSE_SECONDS = 4.0
# The ranks of a script finalize MPI and exit after their last word, which takes 0.1 s.
LEAVING_SECONDS = 10.0


@dataclass(frozen=True)
class RankStanding:
    """The state of one rank of a run.

    Args:
        boundary: Boundaries passed, by the last pulse.
        rate: Boundaries per second.
        heard: When that pulse came, by the steady clock, like all moments here.
        call: The MPI call that it was in.
        waiting: How many seconds it had been in that call.
        line: The user's line; 0 if unknown.
        doing: The call on that line.
        still: How many seconds it had been at that very place.
        traffic: Bytes per second of its host's network, while it waits.
        begun: Whether any message came from it.
        left: Whether it reports that it has left; the ending comes after all of its output.
        ending: How it left, once reported.
        idle_since: When it first said, and has said again since, that it has not begun although
            it executes nothing else.
        idle: When it last said so.
    """

    begun: bool = False
    boundary: int = 0
    rate: float = 0.0
    heard: float = 0.0
    call: str = ""
    waiting: float = 0.0
    line: int = 0
    doing: str = ""
    still: float = 0.0
    traffic: float = 0.0
    left: bool = False
    ending: Ending | None = None
    idle_since: float = 0.0
    idle: float = 0.0

    def idle_at(self, now: float) -> RankStanding:
        """Return it after it has said that it is idle."""
        is_still = now - self.idle <= IDLE_PAUSE_SECONDS
        return replace(self, idle_since=self.idle_since if is_still else now, idle=now)

    def after(self, pulse: Pulse, now: float) -> RankStanding:
        """Return the state that a pulse reports."""
        return RankStanding(
            begun=True,
            boundary=pulse.boundary,
            rate=pulse.rate,
            heard=now,
            call=pulse.call,
            waiting=pulse.seconds,
            line=pulse.line,
            doing=pulse.doing,
            still=pulse.still,
            traffic=pulse.traffic,
            left=pulse.left,
            ending=self.ending,
        )


@dataclass(frozen=True)
class Active:
    """An active run, and the steps taken to end it. Moments are 0 until they come.

    Args:
        at_epoch: Whether it leaves at the end of an epoch.
        is_process: Whether its ranks end with it, as those of a script.
        leaving: When they were left to end by themselves.
    """

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
    at_epoch: bool = False
    is_process: bool = False
    leaving: float = 0.0

    @property
    def are_in(self) -> bool:
        """Whether all ranks are in the run, and nothing asks them to leave it."""
        are_in = all(rank.begun and not (rank.ending or rank.left) for rank in self.ranks)
        return are_in and not (self.stop_wished or self.failed)

    @property
    def remaining(self) -> tuple[int, ...]:
        """The ranks that have not reported how they left."""
        return tuple(n for n, rank in enumerate(self.ranks) if rank.ending is None)

    def deaf(self, now: float) -> tuple[int, ...]:
        """Return the ranks that do not begin the run, although they execute nothing else."""
        return tuple(
            n
            for n, rank in enumerate(self.ranks)
            if not rank.begun
            and now - rank.idle <= IDLE_PAUSE_SECONDS
            and rank.idle - rank.idle_since >= DEAF_SECONDS
        )

    @property
    def has_come_to_its_end(self) -> bool:
        """Whether it is a script that has come to its end on all ranks."""
        endings = [rank.ending for rank in self.ranks]
        are_well = all(one and one.state != "failed" and not one.error for one in endings)
        return self.is_process and are_well and not self.interrupted

    def with_endings(self, known: Mapping[int, Ending]) -> Active:
        """Return it with endings that were found elsewhere, by rank."""
        ranks = enumerate(self.ranks)
        found = [replace(one, ending=one.ending or known.get(number)) for number, one in ranks]
        return replace(self, ranks=tuple(found))

    def stuck(self, now: float) -> tuple[int, ...]:
        """Return those of them that have not left; one that has left may still send its output."""
        if now - self.interrupted >= TELLING_MOST_SECONDS:
            return self.remaining
        ranks = [(n, self.ranks[n]) for n in self.remaining]
        return tuple(n for n, r in ranks if not r.left or now - r.heard >= TELLING_SECONDS)


@dataclass(frozen=True)
class AskPulses:
    """Ask all ranks for their positions."""


@dataclass(frozen=True)
class SendStop:
    """Ask all ranks to leave at a boundary.

    Args:
        epoch: Leave at the first one from there on that ends an epoch.
    """

    boundary: int
    epoch: bool = False


@dataclass(frozen=True)
class Free:
    """Interrupt ranks."""

    ranks: tuple[int, ...]


@dataclass(frozen=True)
class Cancel:
    """Let the ranks skip the run: none of them has begun it."""


@dataclass(frozen=True)
class Fail:
    """Report that the run has failed, and on which rank."""

    rank: int
    error: str
    traceback: str
    whole: str = ""


@dataclass(frozen=True)
class Recover:
    """Create new communicators."""


@dataclass(frozen=True)
class AwaitEnd:
    """Let the ranks of a script end by themselves."""


@dataclass(frozen=True)
class GiveUpWorld:
    """End the world: some of its ranks cannot be freed."""

    reason: str


@dataclass(frozen=True)
class ReleaseWorld:
    """The run is over and its world can take the next one."""


Step = AskPulses | SendStop | Free | Cancel | Fail | Recover | AwaitEnd | GiveUpWorld | ReleaseWorld


def next_steps(active: Active, now: float) -> list[Step]:
    """Return the next steps for a run."""
    if not active.failed and (failure := first_failure(active, now)) is not None:
        return [failure]
    if not active.remaining:
        return _end_process(active, now) if active.is_process else _all_left(active)
    if active.failed:
        return _free_after_failure(active, now)
    if active.stop_wished:
        return _stop(active, now)
    return []


def first_failure(active: Active, now: float) -> Fail | None:
    """Return the failure to show: a rank's own before a consequence of another's."""
    endings = [(n, r.ending) for n, r in enumerate(active.ranks) if r.ending is not None]
    failed = [(n, e) for n, e in endings if e.state == "failed"]
    own = [(n, e) for n, e in failed if not e.secondary]
    if own:
        rank, ending = own[0]
        return Fail(rank, ending.error, ending.traceback, ending.whole)
    # A rank that is freed for a stop may leave with the error of the call that it waited in.
    is_freed = active.stop_wished and active.interrupted
    if failed and not active.remaining and not is_freed:
        rank, ending = failed[0]
        return Fail(rank, ending.error, ending.traceback, ending.whole)
    return _abandoned(active, now)


def ranks_text(ranks: Sequence[int]) -> str:
    """Return ``rank 3`` or ``ranks 0, 2``."""
    return f"rank{'s' * (len(ranks) > 1)} {', '.join(map(str, ranks))}"


def _all_left(active: Active) -> list[Step]:
    if active.recovering:
        if active.recovered is None:
            return []
        return [ReleaseWorld()] if active.recovered else [GiveUpWorld("it could not be recovered")]
    if gone := [n for n, rank in enumerate(active.ranks) if rank.ending and rank.ending.gone]:
        return [GiveUpWorld(f"{ranks_text(gone)} left for good")]
    if not (active.failed or active.interrupted) or _alike(active):
        return [ReleaseWorld()]
    if not active.fault_tolerant:
        return [GiveUpWorld("this MPI cannot recover from a rank that left alone")]
    return [Recover()]


def _end_process(active: Active, now: float) -> list[Step]:
    if not active.has_come_to_its_end:
        return [GiveUpWorld("its script has ended")]
    if not active.leaving:
        return [AwaitEnd()]
    if now - active.leaving >= LEAVING_SECONDS:
        return [GiveUpWorld("its ranks did not end by themselves")]
    return []


def _alike(active: Active) -> bool:
    """Return whether all ranks left in the same way, so that no message between them is pending."""
    endings = [rank.ending for rank in active.ranks if rank.ending is not None]
    same = {(e.state, e.traceback) for e in endings}
    return len(same) == 1 and not active.interrupted and not endings[0].secondary


def _free_after_failure(active: Active, now: float) -> list[Step]:
    if not active.interrupted:
        return [Free(active.remaining)] if now - active.failed >= SETTLE_SECONDS else []
    stuck = active.stuck(now)
    if stuck and now - active.interrupted >= FREE_SECONDS:
        return [GiveUpWorld(f"{ranks_text(stuck)} did not leave the failed cell")]
    return []


def _stop(active: Active, now: float) -> list[Step]:
    if not any(rank.begun for rank in active.ranks):
        return [Cancel()]
    if active.interrupted:
        stuck = active.stuck(now)
        if stuck and now - active.interrupted >= INTERRUPT_SECONDS:
            return [GiveUpWorld(f"{ranks_text(stuck)} did not stop when interrupted")]
        return []
    if now - active.stop_wished >= active.grace:
        return [Free(active.remaining)]
    if not active.pulses_asked:
        return [AskPulses()]
    if not active.stop_sent and _pulses_fresh(active, now):
        return [SendStop(_boundary(active, now), active.at_epoch)]
    return []


def _pulses_fresh(active: Active, now: float) -> bool:
    fresh = all(active.ranks[n].heard >= active.pulses_asked for n in active.remaining)
    return fresh or now - active.pulses_asked >= PULSE_PATIENCE


def _boundary(active: Active, now: float) -> int:
    """Return a boundary that no rank will have passed when the message arrives.

    Both pulse and message take time: together at most as long as has passed since the question.
    """

    def passed(rank: RankStanding) -> int:
        late = min(now - rank.heard + now - active.pulses_asked, STALE_MOST_SECONDS)
        return rank.boundary + math.ceil(rank.rate * (late + MARGIN_SECONDS))

    return 2 + max(passed(active.ranks[n]) for n in active.remaining)


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
