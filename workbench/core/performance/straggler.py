"""Find the ranks that the others wait for: where they are, by how much, and the remedy."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from statistics import fmean, median_low

from workbench.core.performance.what_if import RankStep
from workbench.core.units import duration, rank_ranges

# A rank is a straggler if it works so much longer than half of the ranks.
LATE = 1.15
# Beyond this ratio the two times are shown instead of it.
MANY_TIMES = 10


class Part(StrEnum):
    """A part of a rank's own work in a step."""

    COMPUTE = "compute"
    DATA = "data"
    OTHER = "other"


@dataclass(frozen=True)
class Straggler:
    """The ranks that the others wait for.

    Args:
        host: The host of all of these ranks; empty if there are several, or it is unknown.
        part: The part that takes them longer than the others.
        seconds: Its duration in a step.
        usual: Its duration on the other ranks.
        others: How many ranks are not late.
    """

    ranks: tuple[int, ...]
    host: str
    part: Part
    seconds: float
    usual: float
    others: int = 1


def straggler(ranks: tuple[RankStep, ...], noise: float = 0.0) -> Straggler | None:
    """Return the ranks that the others wait for; None if all ranks are alike.

    Args:
        noise: Relative variation of a step: smaller differences are not significant.
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
    """Return the extra seconds of the slowest rank in a step."""
    return max(one.own for one in ranks) - median_low(one.own for one in ranks)


def sentences(slow: Straggler, gain: str, *, alone: bool) -> str:
    """Return the sentences on a straggler, with the next step.

    Args:
        gain: Speed of training with all ranks alike; empty if unknown.
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
