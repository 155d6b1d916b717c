"""The parts of a training step, also of a loop written by hand, and which steps are sampled.

``communication`` is the time in MPI except for messages from one rank to another, which are
``point-to-point``. In sampled steps all ranks meet in a barrier before they exchange anything: a
rank's time there is ``waiting``, and the rest of the exchange is ``moving``.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from statistics import fmean, median
from typing import NamedTuple

COMMUNICATION = ("waiting", "moving")
WHOLE = ("compute", "communication", "data", "other")
SPLIT = ("compute", *COMMUNICATION, "data", "other")
PASSING = "point-to-point"
# Labels of the parts, in the order in which they are shown everywhere.
LABELS = {
    "compute": "compute",
    "communication": "communication",
    "waiting": "waiting",
    "moving": "moving bytes",
    PASSING: PASSING,
    "data": "data",
    "other": "other",
}
# Share of the training's time that sampling may take; the goal for everything is 1 %.
OVERHEAD = 0.002
# The cost of a sample beside the messages of its barrier.
OWN_SECONDS = 20e-6
# Steps are similar: samples that follow each other sooner add no information.
LOOK_SECONDS = 0.1
NOISE_SECONDS = 0.25
MOST_STEPS = 1_000
UNKNOWN_STEPS = 10
UNKNOWN_PERIOD = 8


def steps_between(step: float, barrier: float) -> int:
    """Return the interval between sampled steps, in steps.

    Args:
        step: Seconds of a step; 0 if unknown.
        barrier: Seconds of a barrier that no rank enters late.
    """
    if step <= 0:
        return UNKNOWN_STEPS
    wanted = max(LOOK_SECONDS, (barrier + OWN_SECONDS) / OVERHEAD) / step
    return max(1, min(MOST_STEPS, math.ceil(wanted)))


def noise_period(step: float, cost: float) -> int:
    """Return the interval between estimates of the gradient noise scale, in steps: a power of two.

    Ranks that differ a little then mostly measure the same steps, and none waits for another.

    Args:
        step: Seconds of a step; 0 if unknown.
        cost: Seconds of one estimate.
    """
    if step <= 0 or cost <= 0:
        return UNKNOWN_PERIOD
    wanted = min(MOST_STEPS, max(NOISE_SECONDS, cost / OVERHEAD) / step)
    return int(2 ** max(0, math.ceil(math.log2(wanted))))


def split(communication: float, moved: list[float] | tuple[float, ...]) -> tuple[float, float]:
    """Return waiting and moving, which add up to ``communication``.

    All steps move the same bytes, but wait for different times, so the time of moving in sampled
    steps is used for the others.

    Args:
        communication: Mean of all steps, in seconds.
        moved: Seconds of moving in each sampled step; at least one.
    """
    moving = min(communication, median(moved))
    return communication - moving, moving


def is_split(steps: Mapping[int, Mapping[str, float]]) -> bool:
    """Return whether some rank's waiting was measured apart from its moving."""
    return any("waiting" in parts for parts in steps.values())


def part_names(steps: Mapping[int, Mapping[str, float]]) -> tuple[str, ...]:
    """Return the parts of all ranks' steps in the order in which they are shown."""
    names = SPLIT if is_split(steps) else WHOLE
    if not any(PASSING in parts for parts in steps.values()):
        return names
    return (*names[:-2], PASSING, *names[-2:])


def part_seconds(parts: Mapping[str, float], names: tuple[str, ...]) -> tuple[float, ...]:
    """Return the seconds of each of ``names``; unsplit communication counts as moving."""
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
    """Return the seconds of a rank's own work in a step."""
    between = (*COMMUNICATION, "communication", PASSING)
    return sum(seconds for name, seconds in parts.items() if name not in between)


class Instant(NamedTuple):
    """A point in time of the main thread.

    Args:
        time: In seconds, by a steady clock.
        mpi: Seconds in MPI calls until then.
    """

    time: float
    mpi: float


class StepParts(NamedTuple):
    """The parts of one step, in seconds; what else passed between two steps is in neither.

    Args:
        update: From the request of the batch to the end of the optimizer's step.
        inside: The part of it in MPI calls.
        data: The part of it until the batch was there.
        ended: When the step ended.
    """

    update: float
    inside: float
    data: float
    ended: float


class LoopTime:
    """Divides the time between the ends of steps.

    A batch belongs to a step if the backward pass is the next event: batches before it were
    evaluated, and their time is none of the step's. Where no batch is seen, the whole time since
    the previous step is the update.
    """

    def __init__(self, now: Instant) -> None:
        self._since = now
        self._batch: tuple[Instant, Instant] | None = None
        self._has_begun = False
        self._update = self._inside = self._data = 0.0

    def fetched(self, asked: Instant, given: Instant) -> None:
        """Note a batch, which is trained on if a backward pass follows."""
        self._batch = asked, given

    def backward(self) -> None:
        """Note that a backward pass begins."""
        if self._batch is not None:
            asked, given = self._batch
            self._batch = None
            if self._has_begun:  # another batch of the same step
                self._add(self._since, asked)
            self._add(asked, given)
            self._data += given.time - asked.time
            self._since = given
        self._has_begun = True

    def step(self, now: Instant) -> StepParts:
        """Note that the optimizer's step has ended; return the step's parts."""
        if self._batch is not None:
            if self._has_begun:  # fetched ahead, for the next step
                asked, given = self._batch
                self._data += given.time - asked.time
            else:
                self.backward()
        self._add(self._since, now)
        parts = StepParts(self._update, self._inside, self._data, now.time)
        self.__init__(now)  # type: ignore[misc]  # a step has nothing of the one before
        return parts

    def _add(self, begun: Instant, ended: Instant) -> None:
        self._update += ended.time - begun.time
        self._inside += ended.mpi - begun.mpi
