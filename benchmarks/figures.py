"""Keep what was measured of two ways to do one thing, as medians, a ratio and its spread."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from random import Random
from statistics import median

from .machine import LOAD, others_cores

LEAST_ROUNDS = 5
RESAMPLES = 2_000


class BenchmarkFailed(Exception):
    """A benchmark could not be measured; the message is a sentence for the reader."""


@dataclass(frozen=True)
class Series:
    """One way to do it, measured once a round.

    Args:
        label: What was measured.
        values: In the row's unit.
        loads: Cores that other programs used beside each round; empty if that was not looked at.
    """

    label: str
    values: tuple[float, ...]
    loads: tuple[float, ...] = ()

    @property
    def median(self) -> float:
        return median(self.values)


@dataclass(frozen=True)
class Row:
    """One line of the table.

    Args:
        what: The quantity.
        unit: ``s``, ``B``, ``1/s``, ``modules`` or ``%``.
        ours: The way that is judged.
        theirs: The way that it is held against, measured in the same rounds; None for none.
        goal: Greatest ratio of ours to theirs.
        limit: Greatest value of ours.
        note: What else the reader has to know.
        pairs: The ratio of each pair of blocks that were measured in turn, if there are such. They
            decide in place of the medians.
    """

    what: str
    unit: str
    ours: Series | None
    theirs: Series | None = None
    goal: float | None = None
    limit: float | None = None
    note: str = ""
    pairs: tuple[float, ...] = ()

    @property
    def ratio(self) -> float | None:
        """Median of ours over median of theirs, or of the pairs; None where theirs is nothing."""
        if self.pairs:
            return median(self.pairs)
        if self.ours is None or self.theirs is None or not all(self.theirs.values):
            return None
        return self.ours.median / self.theirs.median

    @property
    def spread(self) -> tuple[float, float] | None:
        """Least and greatest ratio of one round; of pairs the 95 % interval of their median."""
        if self.pairs:
            return interval(self.pairs)[1:]
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


def interval(ratios: Sequence[float], resamples: int = RESAMPLES) -> tuple[float, float, float]:
    """Return the median of ratios, and its 95 % interval by drawing them again (bootstrap)."""
    chance = Random(0)
    found = sorted(median(chance.choices(ratios, k=len(ratios))) for _ in range(resamples))
    return median(ratios), found[int(0.025 * resamples)], found[int(0.975 * resamples)]


def with_interval(ratios: Sequence[float]) -> str:
    """Return the median of ratios with its 95 % interval, such as 1.0034 (1.0010 to 1.0060)."""
    return "{:.4f} ({:.4f} to {:.4f})".format(*interval(ratios))


def interleaved(
    rounds: int,
    ways: Mapping[str, Callable[[], float]],
    say: Callable[[str], None],
    busy: Callable[[], float] = others_cores,
) -> dict[str, Series]:
    """Measure every way once a round, in turn, so that all share the machine's moods.

    Every second round is measured in the reverse order. The processor time of other programs is
    looked at between rounds, while nothing is measured: a round with more than ``LOAD`` of a core
    before or after it is measured again. Of at most twice as many rounds, those with the least load
    count.

    Args:
        ways: Label to what does it and returns the value.
        say: Called with a line for each round.
        busy: Returns the cores that are used while nothing is measured.
    """
    tried: list[tuple[float, list[float]]] = []
    before = busy()
    while len(tried) < 2 * rounds and sum(load <= LOAD for load, _ in tried) < rounds:
        order = list(ways.items())
        if len(tried) % 2:
            order.reverse()
        values = {label: measure() for label, measure in order}
        after = busy()
        tried.append((max(before, after), [values[label] for label in ways]))
        before = after
        reported = ", ".join(f"{label} {values[label]:.5g}" for label in ways)
        say(f"round {len(tried)} of {rounds}: {reported}; others used {tried[-1][0]:.2f} cores")
    chosen = sorted(sorted(range(len(tried)), key=lambda number: tried[number][0])[:rounds])
    loads = tuple(tried[number][0] for number in chosen)
    columns = zip(*(tried[number][1] for number in chosen), strict=True)
    return {
        label: Series(label, values, loads) for label, values in zip(ways, columns, strict=True)
    }
