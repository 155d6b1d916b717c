"""What the step breakdown shows of which ranks, in pages and in pictures."""

from __future__ import annotations

from workbench.analysis.step_breakdown import Anatomy
from workbench.view.phrase import Phrase, phrase

Rows = dict[int, tuple[float, ...]]


def shown(anatomy: Anatomy, most: int) -> Rows:
    """Return the rows to draw: as many as fit, including the slowest."""
    rows = anatomy.rows
    chosen = [*rows][:most]
    if anatomy.slowest in rows and anatomy.slowest not in chosen:
        chosen[-1] = anatomy.slowest
    return {rank: rows[rank] for rank in chosen}


def longest(rows: Rows) -> float:
    """Return the seconds of the longest bar."""
    return max(map(sum, rows.values()), default=0.0) or 1.0


def is_marked(anatomy: Anatomy, rank: int) -> bool:
    """Whether a rank is highlighted: the others wait for it."""
    return rank == anatomy.slowest and len(anatomy.steps) > 1


def label(anatomy: Anatomy, rank: int) -> Phrase:
    """Return the label of a rank's bar."""
    name = phrase("rank %1", str(rank))
    return phrase("%1 ▲ slowest", name) if is_marked(anatomy, rank) else name


def title(anatomy: Anatomy, rows: Rows) -> Phrase:
    """Return the caption of the bars."""
    total = len(anatomy.steps)
    if total <= len(rows):
        return phrase("Time of a step in ms")
    return phrase("Time of a step in ms, on %1 of %2 ranks", ("count", len(rows)), ("count", total))
