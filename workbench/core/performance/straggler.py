"""Find the ranks that the others wait for: where, by how much, and the remedy."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from statistics import fmean, median_low

from workbench.core.performance.what_if import RankStep
from workbench.core.units import duration, rank_ranges

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
        others: How many ranks are not late.
    """

    ranks: tuple[int, ...]
    host: str
    part: Part
    seconds: float
    usual: float
    others: int = 1


def straggler(ranks: tuple[RankStep, ...], noise: float = 0.0) -> Straggler | None:
    """Return who the others wait for; None where all are alike.

    Args:
        noise: By how much, relatively, a step varies: what is less does not make ranks differ.
    """
    usual = median_low(one.own for one in ranks)
    slow = [one for one in ranks if one.own > max(LATE, 1 + noise) * usual]
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
    slowest = tuple(one.rank for one in slow)
    return Straggler(slowest, host, part, took[part], takes[part], len(others))


def lateness(ranks: tuple[RankStep, ...]) -> float:
    """Return the seconds that the slowest rank works longer in a step than is usual."""
    return max(one.own for one in ranks) - median_low(one.own for one in ranks)


def sentences(slow: Straggler, gain: str, *, alone: bool) -> str:
    """Return a straggler in words, with the next step.

    Args:
        gain: How fast training would be with all ranks alike; empty where that is not known.
        alone: Whether all ranks are on one machine.
    """
    gives = f" With all ranks alike training would be {gain}." if gain else ""
    return f"{_who(slow, alone)}, {_by(slow)}. {_next(slow, alone)}{gives}"


def _who(slow: Straggler, alone: bool) -> str:
    does = {
        Part.COMPUTE: ("computes for", "compute for"),
        Part.DATA: ("waits for its data for", "wait for their data for"),
        Part.OTHER: ("spends on extensions", "spend on extensions"),
    }[slow.part][len(slow.ranks) > 1]
    where = f" on {slow.host}" if slow.host and not alone else ""
    return f"{rank_ranges(slow.ranks)}{where} {does} {duration(slow.seconds)} a step"


def _by(slow: Straggler) -> str:
    others = "the other rank" if slow.others == 1 else "the others"
    if slow.usual and slow.seconds < MANY_TIMES * slow.usual:
        return f"{slow.seconds / slow.usual:.1f} times as long as {others}"
    return f"{others} for {duration(slow.usual)}"


def _next(slow: Straggler, alone: bool) -> str:
    several = len(slow.ranks) > 1 and not slow.host
    if alone:
        return {
            Part.COMPUTE: "See what else runs on this machine.",
            Part.DATA: "See where that rank reads its data from.",
            Part.OTHER: "See which extensions that rank alone runs.",
        }[slow.part]
    there = f"on {slow.host or ('their nodes' if several else 'its node')}"
    return {
        Part.COMPUTE: f"See what else runs {there}, or replace {_node(several)}.",
        Part.DATA: f"See where data is read from {there}, or stage it there.",
        Part.OTHER: f"See which extensions run {there} alone.",
    }[slow.part]


def _node(several: bool) -> str:
    return "those nodes" if several else "that node"
