"""Detect a hanging run: ranks wait in MPI for others that do not come.

A wait is not a hang while another rank makes progress: it may be slow. All ranks in the same call
are not a hang either, unless that takes very long: a transfer takes time. If no rank computes and
no host sends for ``STALLED_SECONDS``, whatever the cause, the world cannot be waited for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Literal, TypeVar

import msgspec

from workbench.core.messages import decode
from workbench.core.run.rank_standing import RankStanding, ranks_text, remaining
from workbench.errors import ProtocolError

Whereabouts = Literal["at", "ended", "silent"]
T = TypeVar("T")
# A pulse comes once a second, and a hang should be detected within five.
WAIT_SECONDS = 3.5
JOIN_SECONDS = 1.0  # after this, another rank counts as waiting too
STILL_SECONDS = 2.0
SILENT_SECONDS = 3.0
TRANSFER_SECONDS = 30.0
STALLED_SECONDS = 60.0
SETUP_SECONDS = 300.0  # the same before the first step: data may be pickled inside of a call
SNAPSHOT_EXCHANGE = "the exchange of a snapshot"
IMPORT = "import "
"""What a rank does begins so where it imports a module."""
IDLE_TRAFFIC = 500e3  # bytes per second; agents and outputs send less
_SENDING = frozenset({"Send", "Ssend", "send", "ssend"})
_RECEIVING = frozenset({"Recv", "Probe", "recv", "probe"})
_BOTH = frozenset({"Sendrecv", "sendrecv"})


@dataclass(frozen=True)
class WaitingRanks:
    """Ranks that wait in one call at one line.

    Args:
        seconds: How long the first of them has waited.
        line: The user's line; 0 if unknown.
    """

    ranks: tuple[int, ...]
    call: str
    seconds: float
    line: int = 0


@dataclass(frozen=True)
class Elsewhere:
    """Ranks that do not wait.

    Args:
        state: ``at`` a place, ``ended``, or ``silent``: without a recent pulse.
        line: The user's line; 0 if unknown.
        doing: The call on that line.
        seconds: How long they have been silent.
    """

    ranks: tuple[int, ...]
    state: Whereabouts
    line: int = 0
    doing: str = ""
    seconds: float = 0.0


@dataclass(frozen=True)
class Hang:
    """The ranks that wait, and those that they wait for.

    Args:
        sure: Whether no rank makes progress; otherwise some ranks are only slow.
    """

    waiting: tuple[WaitingRanks, ...]
    others: tuple[Elsewhere, ...]
    sure: bool


def hang_of(ranks: Sequence[RankStanding], now: float) -> Hang | None:
    """Return which ranks wait for which; None if no rank waits long.

    Args:
        now: By the steady clock, like all moments of ``ranks``.
    """
    stuck = {n: rank for n, rank in enumerate(ranks) if _waits(rank, JOIN_SECONDS)}
    if not any(_waits(rank, WAIT_SECONDS) for rank in stuck.values()):
        return None
    others = {n: rank for n, rank in enumerate(ranks) if n not in stuck}
    if not others and _may_be_transfer(stuck.values()):
        return None
    sure = all(_is_still(rank, now) for rank in others.values())
    return Hang(_waiting(stuck), _elsewhere(others, now), sure)


def describe_stall(ranks: Sequence[RankStanding], now: float) -> str:
    """Return which ranks wait for each other for good, as a clause; empty if some may continue.

    Args:
        now: By the steady clock, like all moments of ``ranks``.
    """
    there = {n: ranks[n] for n in remaining(ranks) if not ranks[n].left}
    waiting = {n: one for n, one in there.items() if _waits(one, _patience(one))}
    waiting = {n: one for n, one in waiting.items() if not _is_silent(one, now)}
    absent = [n for n, one in there.items() if now - one.heard >= STALLED_SECONDS]
    if not waiting or len(waiting) + len(absent) < len(there):
        return ""
    if any(one.traffic >= IDLE_TRAFFIC for one in waiting.values()):
        return ""
    calls = " and ".join(sorted({one.call for one in waiting.values()}))
    seconds = min(one.waiting for one in waiting.values())
    who = ranks_text([*waiting])
    return f"{who[0].upper()}{who[1:]} waited in {calls} for {seconds:.0f} s, and nothing was sent"


@dataclass(frozen=True)
class Suspicion:
    """A host that is thought to hang: none of its ranks answers, and all others wait for them.

    Args:
        ranks: Those that are silent.
        cause: What was seen, as a clause.
    """

    ranks: tuple[int, ...]
    cause: str


def find_suspect(
    ranks: Sequence[RankStanding], hosts: Sequence[str], now: float
) -> Suspicion | None:
    """Return the host that stalls a world; None if ranks of none, or of several, are silent.

    Args:
        hosts: That of each rank.
        now: By the steady clock, like all moments of ``ranks``.
    """
    if not describe_stall(ranks, now) or len(hosts) < len(ranks):
        return None
    silent = [n for n in remaining(ranks) if now - ranks[n].heard >= STALLED_SECONDS]
    found = {hosts[n] for n in silent}
    there = [n for n in range(len(ranks)) if hosts[n] in found]
    if len(found) != 1 or there != silent:
        return None
    waiting = [n for n in remaining(ranks) if n not in silent]
    calls = " and ".join(sorted({ranks[n].call for n in waiting}))
    seconds = now - max(ranks[n].heard for n in silent)
    who, (host,) = ranks_text(silent), found
    return Suspicion(
        tuple(silent),
        f"{who[0].upper()}{who[1:]} on {host} did not answer for {seconds:.0f} s, while "
        f"{ranks_text(waiting)} waited in {calls}",
    )


def describe_desertion(ranks: Sequence[RankStanding], now: float, source: str) -> str:
    """Return which ranks wait for others that have ended, as a sentence; empty if none does.

    While a rank computes, a wait may be for that one.

    Args:
        now: By the steady clock, like all moments of ``ranks``.
        source: What the line is of, such as "the cell".
    """
    over = [n for n, one in enumerate(ranks) if one.ending is not None or one.left]
    waiting = {n: one for n, one in enumerate(ranks) if n not in over}
    # What a rank sent before it ended may still come.
    are_late = all(now - ranks[n].heard >= STALLED_SECONDS for n in over)
    are_stuck = all(
        _waits(one, STALLED_SECONDS) and not _is_silent(one, now) for one in waiting.values()
    )
    # Two may send each other something long.
    sends = len(waiting) > 1 and any(one.traffic >= IDLE_TRAFFIC for one in waiting.values())
    if not over or not waiting or sends or not (are_late and are_stuck):
        return ""
    parts = []
    for one in _waiting(waiting):
        has = "has" if len(one.ranks) == 1 else "have"
        text = f"{ranks_text(one.ranks)} {has} waited in {one.call} for {one.seconds:.0f} s"
        parts.append(f"{text} (line {one.line} of {source})" if one.line else text)
    ended = "has ended, so it" if len(over) == 1 else "have ended, so they"
    text = "; ".join([*parts, f"{ranks_text(over)} {ended} will never come"])
    return f"{text[0].upper()}{text[1:]}."


def encode_hang(hang: Hang | None) -> str:
    """Return ``hang`` as stored text; empty for None."""
    return msgspec.json.encode(hang).decode() if hang else ""


def decode_hang(text: str) -> Hang | None:
    """Return the hang that ``encode_hang`` stored; None if the text is invalid."""
    with suppress(ProtocolError):
        return decode(Hang, text) if text else None
    return None


def _waits(rank: RankStanding, seconds: float) -> bool:
    return rank.ending is None and bool(rank.call) and rank.waiting >= seconds


def _patience(rank: RankStanding) -> float:
    """Return how long a rank may wait while nothing is sent."""
    has_begun = rank.boundary > 0 or rank.call == SNAPSHOT_EXCHANGE
    return STALLED_SECONDS if has_begun else SETUP_SECONDS


def _is_still(rank: RankStanding, now: float) -> bool:
    """Return whether a rank that does not wait long makes no visible progress."""
    return rank.ending is not None or _is_silent(rank, now) or rank.still >= STILL_SECONDS


def _is_silent(rank: RankStanding, now: float) -> bool:
    return bool(rank.heard) and now - rank.heard >= SILENT_SECONDS


def _may_be_transfer(ranks: Iterable[RankStanding]) -> bool:
    """Return whether ranks that are all in a call may be moving many bytes."""
    found = [*ranks]
    calls = {rank.call for rank in found}
    paired = calls <= _SENDING | _RECEIVING | _BOTH and not (
        calls <= _SENDING or calls <= _RECEIVING
    )
    brief = max(rank.waiting for rank in found) < TRANSFER_SECONDS
    return brief and (paired or (len(calls) == 1 and not calls <= _SENDING | _RECEIVING))


def _waiting(ranks: Mapping[int, RankStanding]) -> tuple[WaitingRanks, ...]:
    return tuple(
        WaitingRanks(numbers, call, float(int(max(ranks[n].waiting for n in numbers))), line)
        for (call, line), numbers in _groups(ranks, lambda rank: (rank.call, rank.line))
    )


def _elsewhere(ranks: Mapping[int, RankStanding], now: float) -> tuple[Elsewhere, ...]:
    def place(rank: RankStanding) -> tuple[Whereabouts, int, str]:
        if rank.ending is not None:
            return "ended", 0, ""
        return "silent" if _is_silent(rank, now) else "at", rank.line, rank.doing

    return tuple(
        Elsewhere(
            numbers,
            state,
            line,
            doing,
            float(int(now - min(ranks[n].heard for n in numbers))) if state == "silent" else 0.0,
        )
        for (state, line, doing), numbers in _groups(ranks, place)
    )


def _groups(
    ranks: Mapping[int, RankStanding], key: Callable[[RankStanding], T]
) -> Sequence[tuple[T, tuple[int, ...]]]:
    """Return ranks grouped by ``key``, in the order of their numbers."""
    found: dict[T, list[int]] = {}
    for number, rank in ranks.items():
        found.setdefault(key(rank), []).append(number)
    return [(what, tuple(numbers)) for what, numbers in found.items()]
