"""What one run's ranks have said of themselves, and what follows from all of it together."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from workbench.core.run.rank_protocol import Ending, Pulse

# How long a rank that has left may be silent, and how long it may take to send its output.
TELLING_SECONDS = 10.0
TELLING_MOST_SECONDS = 600.0
# A rank that passed a boundary before the message came would leave at its next one, and the others
# would wait for it until the grace is over.
MARGIN_SECONDS = 0.3
# A rank that computes sends a pulse each second; one that is silent for longer is blocked.
STALE_MOST_SECONDS = 2.0
EXIT_SECONDS = 0.5
# An engine that is free begins a run in milliseconds; within this time it is sent twice more.
DEAF_SECONDS = 12.0
IDLE_PAUSE_SECONDS = 4.0


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
class RankFailure:
    """The rank whose error is shown as that of the run.

    Args:
        error: The traceback's last line.
        whole: The traceback with all frames, if ``traceback`` leaves some out.
    """

    rank: int
    error: str
    traceback: str
    whole: str = ""


def are_in(ranks: Sequence[RankStanding]) -> bool:
    """Return whether all ranks have begun, and none has left."""
    return all(rank.begun and not (rank.ending or rank.left) for rank in ranks)


def remaining(ranks: Sequence[RankStanding]) -> tuple[int, ...]:
    """Return the ranks that have not reported how they left."""
    return tuple(n for n, rank in enumerate(ranks) if rank.ending is None)


def waiting(ranks: Sequence[RankStanding]) -> tuple[int, ...]:
    """Return the ranks that have not begun."""
    return tuple(n for n, rank in enumerate(ranks) if not (rank.begun or rank.ending))


def endings(ranks: Sequence[RankStanding]) -> dict[int, Ending]:
    """Return how ranks left, for those that have reported it."""
    return {n: rank.ending for n, rank in enumerate(ranks) if rank.ending is not None}


def with_endings(
    ranks: Sequence[RankStanding], known: Mapping[int, Ending]
) -> tuple[RankStanding, ...]:
    """Return the ranks with endings that were found elsewhere, by rank."""
    return tuple(
        replace(one, ending=one.ending or known.get(number)) for number, one in enumerate(ranks)
    )


def deaf(ranks: Sequence[RankStanding], now: float) -> tuple[int, ...]:
    """Return the ranks that do not begin the run, although they execute nothing else."""
    return tuple(
        n
        for n, rank in enumerate(ranks)
        if not rank.begun
        and now - rank.idle <= IDLE_PAUSE_SECONDS
        and rank.idle - rank.idle_since >= DEAF_SECONDS
    )


def stuck(ranks: Sequence[RankStanding], interrupted: float, now: float) -> tuple[int, ...]:
    """Return the interrupted ranks that stay; one that has left may still send its output."""
    there = remaining(ranks)
    if now - interrupted >= TELLING_MOST_SECONDS:
        return there
    return tuple(n for n in there if not ranks[n].left or now - ranks[n].heard >= TELLING_SECONDS)


def left_alike(ranks: Sequence[RankStanding]) -> bool:
    """Return whether all ranks left in the same way, so that no message between them is pending."""
    found = [*endings(ranks).values()]
    return len({(e.state, e.traceback) for e in found}) == 1 and not found[0].secondary


def left_well(ranks: Sequence[RankStanding]) -> bool:
    """Return whether all ranks have left without an error."""
    found = [rank.ending for rank in ranks]
    return all(one and one.state != "failed" and not one.error for one in found)


def first_failure(
    ranks: Sequence[RankStanding], *, is_leaving: bool, is_freed: bool
) -> RankFailure | None:
    """Return the failure to show: a rank's own before a consequence of another's.

    Args:
        is_leaving: Whether the ranks were asked to leave.
        is_freed: Whether they were interrupted for that: then a rank may leave with the error of
            the call that it waited in.
    """
    failed = [(n, e) for n, e in endings(ranks).items() if e.state == "failed"]
    own = [(n, e) for n, e in failed if not e.secondary]
    shown = own or (failed if not (remaining(ranks) or is_freed) else [])
    if shown:
        rank, ending = shown[0]
        return RankFailure(rank, ending.error, ending.traceback, ending.whole)
    return None if is_leaving else _find_abandoned(ranks)


def _find_abandoned(ranks: Sequence[RankStanding]) -> RankFailure | None:
    """Return a failure if a rank left by ``sys.exit()`` and another waits for it in MPI."""
    exited = [n for n, ending in endings(ranks).items() if ending.exited]
    held = [n for n in remaining(ranks) if ranks[n].call and ranks[n].waiting >= EXIT_SECONDS]
    if not exited or not held:
        return None
    error = f"left by sys.exit() while {ranks_text(held)} waited for it in {ranks[held[0]].call}"
    return RankFailure(exited[0], error, f"SystemExit: {error}")


def boundary_ahead(ranks: Sequence[RankStanding], asked: float, now: float) -> int:
    """Return a boundary that no rank will have passed when the message arrives.

    Both pulse and message take time: together at most as long as has passed since the question.

    Args:
        asked: When the ranks were asked for their positions.
    """

    def passed(rank: RankStanding) -> int:
        late = min(now - rank.heard + now - asked, STALE_MOST_SECONDS)
        return rank.boundary + math.ceil(rank.rate * (late + MARGIN_SECONDS))

    return 2 + max(passed(ranks[n]) for n in remaining(ranks))


def ranks_text(ranks: Sequence[int]) -> str:
    """Return ``rank 3`` or ``ranks 0, 2``."""
    return f"rank{'s' * (len(ranks) > 1)} {', '.join(map(str, ranks))}"
