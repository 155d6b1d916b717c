"""What the step breakdown shows of which ranks, in pages and in pictures."""

from __future__ import annotations

from workbench.analysis.step_breakdown import Anatomy

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


def label(anatomy: Anatomy, rank: int) -> str:
    """Return the label of a rank's bar."""
    return f"rank {rank} ▲ slowest" if is_marked(anatomy, rank) else f"rank {rank}"


def title(anatomy: Anatomy, rows: Rows) -> str:
    """Return the caption of the bars."""
    total = len(anatomy.steps)
    if total <= len(rows):
        return "Time of a step in ms"
    return f"Time of a step in ms, on {len(rows):,} of {total:,} ranks"
