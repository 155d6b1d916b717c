"""Fold identical output lines of several ranks, for the terminal."""

from __future__ import annotations

from workbench.core.moment import is_due
from workbench.core.run.metrics import FoldedLine, fold_lines
from workbench.view.lines import LineReader

# How long a line waits for the same one from another rank.
HOLD_SECONDS = 0.3
LONGEST_LINE = 10_000


class RankOutput:
    """A buffer that folds identical lines of several ranks.

    Args:
        only: Keep the lines of this rank; None for all.
    """

    def __init__(self, only: int | None = None) -> None:
        self._only = only
        self._readers: dict[int, LineReader] = {}
        self._lines: dict[int, list[tuple[float, str]]] = {}

    def feed(self, rank: int, text: str, now: float) -> None:
        """Add a piece of the output of ``rank``."""
        if self._only in (None, rank):
            reader = self._readers.setdefault(rank, LineReader())
            lines = self._lines.setdefault(rank, [])
            lines += [(now, line) for line in reader.feed(text, LONGEST_LINE)]

    def take(self, now: float, *, final: bool = False) -> list[FoldedLine]:
        """Return the lines that every rank has written, and those older than the limit.

        Args:
            now: Seconds, by the clock that ``feed`` was given.
            final: Whether the output is complete.
        """
        if final:
            for rank in [rank for rank, reader in self._readers.items() if reader.partial]:
                self.feed(rank, "\n", now)
        taken = []
        used = dict.fromkeys(self._lines, 0)
        held: set[int] = set()  # ranks whose next line waits, and so all that follow it
        for line in fold_lines({rank: [t for _, t in rows] for rank, rows in self._lines.items()}):
            shared = len(line.ranks) == len(self._lines) > 1
            oldest = min(self._lines[rank][used[rank]][0] for rank in line.ranks)
            due = final or shared or is_due(oldest, now, HOLD_SECONDS)
            if held.isdisjoint(line.ranks) and due:
                taken.append(line)
                for rank in line.ranks:
                    used[rank] += 1
            else:
                held.update(line.ranks)
        for rank, amount in used.items():
            del self._lines[rank][:amount]
        return taken
