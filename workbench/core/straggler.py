"""Say of ranks that the others wait for which they are, where, by how much, and what to do."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from statistics import fmean, median_low

from workbench.core.change import RankStep
from workbench.core.metrics import rank_ranges

# How much longer than half of the ranks a rank has to work to be waited for.
LATE = 1.15
# Beyond that the two times say more than their ratio.
MANY_TIMES = 10


class Part(StrEnum):
    """What a rank does for itself in a step."""

    COMPUTE = "compute"
    DATA = "data"
    OTHER = "other"


@dataclass(frozen=True)
class Straggler:
    """Ranks that the others wait for.

    Args:
        host: On which all of these are; empty where they are on several, or nobody knows.
        part: That takes them longer than the others.
        seconds: That it takes them in a step.
        usual: That it takes the others.
    """

    ranks: tuple[int, ...]
    host: str
    part: Part
    seconds: float
    usual: float


def straggler(ranks: tuple[RankStep, ...]) -> Straggler | None:
    """Return who the others wait for; None where all are alike."""
    usual = median_low(one.own for one in ranks)
    slow = [one for one in ranks if one.own > LATE * usual]
    if not slow:
        return None
    others = [one for one in ranks if one not in slow]
    took, takes = (
        {part: fmean(getattr(one, part) for one in several) for part in Part}
        for several in (slow, others)
    )
    part = max(Part, key=lambda one: took[one] - takes[one])
    hosts = {one.host for one in slow}
    host = hosts.pop() if len(hosts) == 1 else ""
    return Straggler(tuple(one.rank for one in slow), host, part, took[part], takes[part])


def sentences(slow: Straggler, share: float, speedup: float) -> str:
    """Return a straggler in words, with the next step.

    Args:
        share: Of a step that the others wait at most.
        speedup: With all ranks alike; 0 when nobody knows.
    """
    several = len(slow.ranks) > 1
    them = "them" if several else "it"
    gives = f": with all ranks alike training would be {speedup:.1f}× as fast" if speedup else ""
    return (
        f"{_who(slow, several)}, {_by(slow)}; the others wait for {them} up to "
        f"{100 * share:.0f} % of a step. {_next(slow, several)}{gives}."
    )


def _who(slow: Straggler, several: bool) -> str:
    does = {
        Part.COMPUTE: ("computes for", "compute for"),
        Part.DATA: ("waits for its data for", "wait for their data for"),
        Part.OTHER: ("spends on extensions", "spend on extensions"),
    }[slow.part][several]
    where = f" on {slow.host}" if slow.host else ""
    return f"{rank_ranges(slow.ranks)}{where} {does} {1000 * slow.seconds:.3g} ms a step"


def _by(slow: Straggler) -> str:
    if slow.usual and slow.seconds < MANY_TIMES * slow.usual:
        return f"{slow.seconds / slow.usual:.1f} times as long as the others"
    return f"the others {1000 * slow.usual:.3g} ms"


def _next(slow: Straggler, several: bool) -> str:
    node = "those nodes" if several and not slow.host else "that node"
    there = f"on {slow.host or ('their nodes' if several else 'its node')}"
    return {
        Part.COMPUTE: f"See what else runs {there}, or replace {node}",
        Part.DATA: f"See where data is read from {there}, or stage it there",
        Part.OTHER: f"See which extensions run {there} alone",
    }[slow.part]
