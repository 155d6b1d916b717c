"""Gather what the store holds of one run, by sequence number, for a screen to show."""

from __future__ import annotations

import re
from collections import deque

from workbench.core.cluster import ClusterFact
from workbench.core.metrics import FoldedLine, fold_lines
from workbench.core.run import Run
from workbench.core.sampling import Curve
from workbench.store import Store

POINTS_AT_ONCE = 20_000
PIECES_AT_ONCE = 5_000
# How long a line waits for the same one from another rank.
HOLD_SECONDS = 0.3
PACE_SECONDS = 5.0
LONGEST_LINE = 10_000
# Where the time of a step goes is kept for another picture than the curves.
STEP_PREFIX = "step/"
_ESCAPES = re.compile(
    r"\x1b\[[0-9;?]*[ -/]*[@-~]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)|[\x00-\x08\x0b-\x1f]"
)


class Output:
    """Lines of several ranks on their way to the screen, identical ones folded.

    Args:
        only: The one rank whose lines are wanted; None for all.
    """

    def __init__(self, only: int | None = None) -> None:
        self._only = only
        self._lines: dict[int, list[tuple[float, str]]] = {}
        self._partial: dict[int, str] = {}

    def feed(self, rank: int, text: str, now: float) -> None:
        """Take in a piece of the output of ``rank``."""
        if self._only not in (None, rank):
            return
        *whole, rest = (self._partial.get(rank, "") + text).split("\n")
        self._partial[rank] = rest[-LONGEST_LINE:]
        lines = self._lines.setdefault(rank, [])
        lines += [(now, _as_printed(line)) for line in whole]

    def take(self, now: float, *, final: bool = False) -> list[FoldedLine]:
        """Return the lines that every rank has written, and those that have waited long enough.

        Args:
            now: Seconds, by the clock that ``feed`` was given.
            final: Whether nothing more will come.
        """
        if final:
            for rank in [rank for rank, text in self._partial.items() if text]:
                self.feed(rank, "\n", now)
        taken = []
        folded = fold_lines({rank: [t for _, t in lines] for rank, lines in self._lines.items()})
        used = dict.fromkeys(self._lines, 0)
        for line in folded:
            oldest = min(self._lines[rank][used[rank]][0] for rank in line.ranks)
            shared = len(line.ranks) == len(self._lines) > 1
            if not (final or shared or now - oldest >= HOLD_SECONDS):
                break
            taken.append(line)
            for rank in line.ranks:
                used[rank] += 1
        for rank, amount in used.items():
            del self._lines[rank][:amount]
        return taken


class Record:
    """All that was read of a run so far.

    Args:
        run: The run as it was when reading began.
        only: The one rank whose output is wanted; None for all.
    """

    def __init__(self, run: Run, only: int | None = None) -> None:
        self.run = run
        self.cluster = ClusterFact(run.wish.cluster)
        self.curves: dict[str, Curve] = {}
        self.output = Output(only)
        self._point = 0
        self._piece = 0
        self._paces: deque[tuple[float, int]] = deque()

    def __repr__(self) -> str:
        return f"<Record of {self.run.wish.name}: {self._point} points>"

    @property
    def pace(self) -> float:
        """Iterations a second of late; 0 when unknown."""
        if len(self._paces) < 2:
            return 0.0
        (before, first), (now, last) = self._paces[0], self._paces[-1]
        return (last - first) / (now - before) if now > before else 0.0

    def read(self, store: Store, now: float) -> None:
        """Take in what is new.

        Args:
            store: Where it is.
            now: Epoch seconds.
        """
        # The state first: what is written before a run ends is then read after its end was seen.
        self.run = store.run(self.run.id)
        self.cluster = store.cluster_fact(self.run.wish.cluster)
        while self._read_points(store) or self._read_output(store, now):
            pass
        if self.run.fact.iteration:
            self._paces.append((now, self.run.fact.iteration))
        while len(self._paces) > 2 and now - self._paces[0][0] > PACE_SECONDS:
            self._paces.popleft()

    def _read_points(self, store: Store) -> bool:
        rows = store.points(self.run.id, self._point, POINTS_AT_ONCE)
        for row in rows:
            self._point = row.sequence
            if not row.name.startswith(STEP_PREFIX):
                curve = self.curves.setdefault(row.name, Curve())
                curve.add(row.rank, row.iteration, row.value)
        return len(rows) == POINTS_AT_ONCE

    def _read_output(self, store: Store, now: float) -> bool:
        rows = store.output(self.run.id, self._piece, PIECES_AT_ONCE)
        for row in rows:
            self.output.feed(row.rank, row.text, now)
            self._piece = row.sequence
        return len(rows) == PIECES_AT_ONCE


def last_values(store: Store, run: Run) -> dict[str, float]:
    """Return the last value of every curve of ``run``."""
    values = store.final_values(run.id)
    return {name: value for name, value in values.items() if not name.startswith(STEP_PREFIX)}


def _as_printed(line: str) -> str:
    """Return what a terminal shows of ``line``: the last state of a progress bar, no colours."""
    stages = [stage for stage in line.split("\r") if stage]
    return _ESCAPES.sub("", stages[-1]) if stages else ""
