"""The parts of a training step, and which steps are sampled.

``communication`` is what is spent in MPI, but for messages from one rank to another, which are
``point-to-point``. On some steps all ranks meet before they exchange
anything: what a rank waits there is ``waiting``, and what the exchange then takes is ``moving``.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from statistics import fmean, median

COMMUNICATION = ("waiting", "moving")
WHOLE = ("compute", "communication", "data", "other")
SPLIT = ("compute", *COMMUNICATION, "data", "other")
PASSING = "point-to-point"
# What a person reads for each part, in the order in which parts are shown everywhere.
LABELS = {
    "compute": "compute",
    "communication": "communication",
    "waiting": "waiting",
    "moving": "moving bytes",
    PASSING: PASSING,
    "data": "data",
    "other": "other",
}
# Of the training's time, what looking closely may take; the goal is 1 % with all else.
OVERHEAD = 0.002
# What a look costs beside the messages of its barrier.
OWN_SECONDS = 20e-6
# Steps are much alike: more looks than these tell nothing new.
LOOK_SECONDS = 0.02
MOST_STEPS = 1_000
UNKNOWN_STEPS = 10
UNKNOWN_GAUGE = 8


def steps_between(step: float, barrier: float) -> int:
    """Return every how many steps one may be looked at.

    Args:
        step: Seconds that a step takes; 0 when unknown.
        barrier: Seconds that a barrier takes which nobody comes late to.
    """
    if step <= 0:
        return UNKNOWN_STEPS
    wanted = max(LOOK_SECONDS, (barrier + OWN_SECONDS) / OVERHEAD) / step
    return max(1, min(MOST_STEPS, math.ceil(wanted)))


def gauge_period(step: float, cost: float) -> int:
    """Return every how many steps gradients may be gauged: a power of two.

    Ranks that differ a little then mostly gauge the same steps, and none waits for another.

    Args:
        step: Seconds that a step takes; 0 when unknown.
        cost: Seconds that it takes to gauge one.
    """
    if step <= 0 or cost <= 0:
        return UNKNOWN_GAUGE
    wanted = min(MOST_STEPS, cost / (OVERHEAD * step))
    return int(2 ** max(0, math.ceil(math.log2(wanted))))


def split(communication: float, moved: list[float] | tuple[float, ...]) -> tuple[float, float]:
    """Return waiting and moving, which add up to ``communication``.

    The bytes are the same in every step and the waiting is not, so it is the time of moving that
    the steps which were looked at tell about the others.

    Args:
        communication: Mean of all steps, in seconds.
        moved: What moving took in the steps that were looked at; at least one.
    """
    moving = min(communication, median(moved))
    return communication - moving, moving


def is_split(steps: Mapping[int, Mapping[str, float]]) -> bool:
    """Whether some rank's waiting was measured apart from its moving."""
    return any("waiting" in parts for parts in steps.values())


def part_names(steps: Mapping[int, Mapping[str, float]]) -> tuple[str, ...]:
    """Return the parts of all ranks' steps in the order in which they are shown."""
    names = SPLIT if is_split(steps) else WHOLE
    if not any(PASSING in parts for parts in steps.values()):
        return names
    return (*names[:-2], PASSING, *names[-2:])


def part_seconds(parts: Mapping[str, float], names: tuple[str, ...]) -> tuple[float, ...]:
    """Return the seconds of each of ``names``; what was not split counts as moving."""
    found = dict(parts)
    if "moving" not in found:
        found["moving"] = found.get("communication", 0.0)
    return tuple(found.get(name, 0.0) for name in names)


def mean_parts(steps: Mapping[int, Mapping[str, float]]) -> dict[str, float]:
    """Return the mean over the ranks of each part's seconds, in the order of ``part_names``."""
    names = part_names(steps)
    rows = [part_seconds(parts, names) for parts in steps.values()]
    columns = zip(*rows, strict=True) if rows else [(0.0,)] * len(names)
    return {name: fmean(column) for name, column in zip(names, columns, strict=True)}


def own_work(parts: Mapping[str, float]) -> float:
    """Return the seconds of a step that a rank spends on its own."""
    between = (*COMMUNICATION, "communication", PASSING)
    return sum(seconds for name, seconds in parts.items() if name not in between)
