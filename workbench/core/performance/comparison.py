"""Compare several runs: which is fastest, by how much, and which part of a step explains it."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median, quantiles

from workbench.core.performance.step_sampling import COMMUNICATION, LABELS
from workbench.core.units import number

# Assumed for a run that was too short to measure it.
UNKNOWN_NOISE = 0.1
LEAST_WINDOWS = 4
# Distance between the quartiles of a normal distribution, in standard deviations.
_QUARTILES = 1.349
# Two standard deviations: 19 of 20 values are within.
SURE = 2.0

# A smaller difference is not significant, however small the noise.
LEAST = 0.02
# Batches count as equal if they differ only by an epoch's last, smaller one.
SAME_BATCH = 0.01


def noise_of(windows: Iterable[Sequence[float]]) -> float:
    """Return the relative standard deviation of the time of a step.

    It is computed from quartiles, so that a window with an evaluation has little weight.

    Args:
        windows: For each rank the mean seconds of a step, window by window.
    """
    found = [
        (upper - lower) / _QUARTILES / middle
        for lower, middle, upper in (
            quantiles(one, n=4) for one in windows if len(one) >= LEAST_WINDOWS
        )
        if middle > 0
    ]
    return median(found) if found else UNKNOWN_NOISE


def widen_range(low: float, high: float, *noises: float) -> tuple[float, float]:
    """Return a predicted range, widened by the noise of all runs that it depends on."""
    room = math.exp(SURE * math.hypot(*noises))
    return low / room, high * room


def scale_band(scales: Sequence[float]) -> tuple[float, float] | None:
    """Return the range of four of five estimates of a scale; None if there are too few."""
    if len(scales) < LEAST_WINDOWS:
        return None
    ordered = sorted(scales)
    low, high = (ordered[round(share * (len(ordered) - 1))] for share in (0.1, 0.9))
    return low, high


@dataclass(frozen=True)
class StepSummary:
    """The breakdown of a run's step, as the mean of its ranks.

    Args:
        parts: Seconds of each part, in the order in which they are shown.
        noise: Relative variation of a step.
        batch: Examples of all ranks per step; 0 if unknown.
    """

    parts: Mapping[str, float]
    noise: float = UNKNOWN_NOISE
    batch: float = 0.0

    @property
    def total(self) -> float:
        """Seconds of a step."""
        return sum(self.parts.values())


def compare_runs(runs: Sequence[tuple[str, StepSummary | None]]) -> str:
    """Return a sentence on how runs differ in speed; empty if fewer than two were measured.

    Args:
        runs: Each run's name, and its step breakdown.
    """
    known = [(name, step) for name, step in runs if step is not None and step.total > 0]
    if len(known) < 2:
        return ""
    by_examples = all(step.batch > 0 for _, step in known) and not _same_batch(known)
    speed = {id(step): (step.batch if by_examples else 1.0) / step.total for _, step in known}
    ordered = sorted(known, key=lambda one: speed[id(one[1])])
    (slow, base), (fast, best) = ordered[0], ordered[-1]
    times = speed[id(best)] / speed[id(base)]
    noise = max(LEAST, math.hypot(base.noise, best.noise))
    if times < 1 + noise:
        return f"These runs are equally fast within the noise (±{100 * noise:.0f} %)."
    text = f"Run {fast!r} is {_times(times)} times as fast as run {slow!r}"
    if by_examples:
        return f"{text}, in examples a second."
    part, less = _difference(base, best)
    return f"{text}: {LABELS[part]} took {number(1000 * less, 3)} ms less a step."


def _same_batch(known: Sequence[tuple[str, StepSummary]]) -> bool:
    batches = [step.batch for _, step in known]
    return max(batches) - min(batches) <= SAME_BATCH * max(batches)


def _difference(base: StepSummary, best: StepSummary) -> tuple[str, float]:
    """Return the part that differs most in favour of ``best``, and by how many seconds."""
    alike = all(COMMUNICATION[0] in one.parts for one in (base, best))
    before, after = (one.parts if alike else _join_parts(one.parts) for one in (base, best))
    less = {name: took - after.get(name, 0.0) for name, took in before.items()}
    part = max(less, key=lambda name: less[name])
    return part, less[part]


def _join_parts(parts: Mapping[str, float]) -> dict[str, float]:
    """Return the parts with waiting and moving combined, for comparison with such runs."""
    both = ("communication", *COMMUNICATION)
    found = {name: seconds for name, seconds in parts.items() if name not in both}
    return {**found, "communication": sum(parts.get(name, 0.0) for name in both)}


def _times(value: float) -> str:
    return f"{value:.1f}" if value < 10 else f"{value:.0f}"
