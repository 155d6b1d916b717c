"""Split a run's output at the beginning of each attempt, and give each a heading."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from itertools import groupby

from workbench.core.recovery.resumption import NONE, Attempt, lost_steps
from workbench.core.run.model import Run
from workbench.core.units import count
from workbench.store import OutputRow, Store


class AttemptHeadings:
    """The headings of one run's output, each returned once.

    Args:
        run: The run's id.
    """

    def __init__(self, run: str) -> None:
        self._run = run
        self._seen = 0

    def split(
        self, store: Store, rows: Sequence[OutputRow]
    ) -> Iterator[tuple[str, list[OutputRow]]]:
        """Yield pieces of output by attempt, each group with its heading, or an empty text.

        A run without a second attempt has no heading.
        """
        run, past = store.run(self._run), store.attempts.past(self._run)
        ends = [one.last_output for one in past]
        for place, group in groupby(rows, key=lambda row: bisect_left(ends, row.sequence)):
            is_new, self._seen = place >= self._seen, max(self._seen, place + 1)
            yield heading(run, past, place) if is_new and past else "", [*group]


def output_before(store: Store, run: str) -> int:
    """Return the sequence number of the newest output of a run's earlier attempts; 0 for none."""
    return max((one.last_output for one in store.attempts.past(run)), default=0)


def heading(run: Run, past: Sequence[Attempt], place: int) -> str:
    """Return the heading of an attempt: why it was begun, and from where.

    Args:
        past: The attempts that have ended, oldest first.
        place: That of the attempt among all, from 0.
    """
    ranks = past[place].ranks if place < len(past) else run.fact.ranks
    if not place:
        return f"attempt 1, {count(ranks, 'rank')}"
    before = past[place - 1]
    changed = f"{before.ranks} → " if before.ranks != ranks else ""
    parts = [f"attempt {place + 1}", f"{changed}{count(ranks, 'rank')}"]
    resumed_at = past[place].resumed_at if place < len(past) else run.fact.resumed_at
    if resumed_at != NONE:
        parts.append(f"from iteration {resumed_at:,}")
    why = before.message if before.is_automatic else "resumed"
    lost = "" if run.wish.restarts else lost_steps(past[:place], resumed_at, {})
    return f"{', '.join(parts)}: {' '.join(filter(None, (why, lost)))}"
