"""Keep what ranks wrote, in bounded memory, and show it folded."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from html import escape

from workbench.core.metrics import FoldedLine, fold_lines, rank_ranges
from workbench.view.lines import LineReader
from workbench.view.phrases import count

KEPT_CHARACTERS = 300_000
PREVIEW_CHARACTERS = 4_000


class RankLines:
    """The newest lines of one rank."""

    def __init__(self) -> None:
        self.lines: deque[str] = deque()
        self.dropped = 0
        self._reader = LineReader()
        self._size = 0

    def feed(self, text: str, limit: int) -> None:
        """Take in a piece of output; keep about the last ``limit`` characters."""
        for line in self._reader.feed(text, limit):
            self.lines.append(line[:limit])
            self._size += len(self.lines[-1]) + 1
        while self._size > limit and len(self.lines) > 1:
            self._size -= len(self.lines.popleft()) + 1
            self.dropped += 1

    def tail(self, limit: int) -> list[str]:
        """Return the newest lines, together at most ``limit`` characters, but at least one."""
        newest: list[str] = []
        partial = self._reader.partial[-limit:]
        for line in ([partial] if partial else []) + list(reversed(self.lines)):
            limit -= len(line) + 1
            if limit < 0 and newest:
                break
            newest.append(line)
        return newest[::-1]

    @property
    def written(self) -> int:
        """Lines written so far."""
        return self.dropped + len(self.lines) + bool(self._reader.partial)


class Transcript:
    """What every rank wrote."""

    def __init__(self) -> None:
        self.ranks: dict[int, RankLines] = {}

    def feed(self, rank: int, text: str) -> None:
        """Take in a piece of the output of ``rank``."""
        lines = self.ranks.setdefault(rank, RankLines())
        lines.feed(text, KEPT_CHARACTERS // max(1, len(self.ranks)))

    def written(self, ranks: Iterable[int]) -> int:
        """Return how many lines ``ranks`` wrote so far."""
        return sum(self.ranks[rank].written for rank in ranks)

    def html(self, *, streamed: frozenset[int], final: bool) -> str:
        """Return the output, folded: the newest lines of each rank, all when ``final``.

        Args:
            streamed: Ranks whose output stands on the page already.
        """
        hidden = set(self.ranks) - streamed
        if not hidden:
            return ""
        blocks = [self._block({0}, final, is_open=True)] if 0 in hidden else []
        others = hidden - {0}
        blocks += [self._block(others, final, is_open=False)] if others else []
        return "".join(blocks)

    def text(self, ranks: Iterable[int]) -> str:
        """Return the newest output of ``ranks`` as text."""
        return "\n".join(
            f"{rank_ranges(line.ranks)} | {line.text}" for line in self._fold(ranks, False)
        )

    def _block(self, ranks: set[int], final: bool, *, is_open: bool) -> str:
        lines = [line for line in self._fold(ranks | {0}, final) if ranks & set(line.ranks)]
        width = max((len(rank_ranges(line.ranks)) for line in lines), default=0)
        alone = len(ranks) == 1
        rows = "\n".join(
            escape(line.text if alone else f"{rank_ranges(line.ranks):<{width}} | {line.text}")
            for line in lines
        )
        title = f"Output of {rank_ranges(ranks)}: {count(self.written(ranks), 'line')}"
        shown = sum(len(ranks & set(line.ranks)) for line in lines)
        if shown < self.written(ranks):
            title += f", the newest {shown:,} here"
        return (
            f"<details{' open' if is_open else ''}><summary>{escape(title)}</summary>"
            f"<pre>{rows}</pre></details>"
        )

    def _fold(self, ranks: Iterable[int], final: bool) -> list[FoldedLine]:
        present = [rank for rank in ranks if rank in self.ranks]
        limit = (KEPT_CHARACTERS if final else PREVIEW_CHARACTERS) // max(1, len(present))
        return fold_lines({rank: self.ranks[rank].tail(limit) for rank in present})
