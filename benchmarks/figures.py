"""Keep what was measured of two ways to do one thing, as medians, a ratio and its spread."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from statistics import median

LEAST_ROUNDS = 5


class BenchmarkFailed(Exception):
    """A benchmark could not be measured; the message is a sentence for the reader."""


@dataclass(frozen=True)
class Series:
    """One way to do it, measured once a round.

    Args:
        label: What was measured.
        values: In the row's unit.
    """

    label: str
    values: tuple[float, ...]

    @property
    def median(self) -> float:
        return median(self.values)


@dataclass(frozen=True)
class Row:
    """One line of the table.

    Args:
        what: The quantity.
        unit: ``s``, ``B``, ``1/s`` or ``%``.
        ours: The way that is judged.
        theirs: The way that it is held against, measured in the same rounds; None for none.
        goal: Greatest ratio of ours to theirs.
        limit: Greatest value of ours.
        note: What else the reader has to know.
    """

    what: str
    unit: str
    ours: Series | None
    theirs: Series | None = None
    goal: float | None = None
    limit: float | None = None
    note: str = ""

    @property
    def ratio(self) -> float | None:
        """Median of ours over median of theirs; None where theirs is nothing."""
        if self.ours is None or self.theirs is None or not all(self.theirs.values):
            return None
        return self.ours.median / self.theirs.median

    @property
    def spread(self) -> tuple[float, float] | None:
        """Least and greatest ratio of one round."""
        if self.ours is None or self.theirs is None or not all(self.theirs.values):
            return None
        ratios = [a / b for a, b in zip(self.ours.values, self.theirs.values, strict=True)]
        return min(ratios), max(ratios)

    @property
    def met(self) -> bool | None:
        """Whether the goal was met; None where there is none."""
        if self.goal is not None and self.ratio is not None:
            return self.ratio <= self.goal
        if self.limit is not None and self.ours is not None:
            return self.ours.median <= self.limit
        return None


def interleaved(
    rounds: int, ways: Mapping[str, Callable[[], float]], say: Callable[[str], None]
) -> dict[str, Series]:
    """Measure every way once a round, in turn, so that all share the machine's moods.

    Args:
        ways: Label to what does it and returns the value.
        say: Called with a line for each round.
    """
    values: dict[str, list[float]] = {label: [] for label in ways}
    for number in range(1, rounds + 1):
        for label, measure in ways.items():
            values[label].append(measure())
        reported = ", ".join(f"{label} {series[-1]:.5g}" for label, series in values.items())
        say(f"round {number} of {rounds}: {reported}")
    return {label: Series(label, tuple(series)) for label, series in values.items()}
