"""Divide a run's paid time: what became kept progress, and where the rest went.

::

    attempt 1                                          attempt 2
    ├ begun ┤ progress ┤ redone ┤ unnoticed ┤  paused  ┤ progress ┤ unsaved ┤
            first step          last step   noticed    first step          end
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from workbench.core.units import dollars


@dataclass(frozen=True)
class Stretch:
    """One attempt of a run.

    Args:
        ranks: Its world size.
        seconds: From the end of the attempt before, or the run's beginning, to its end.
        paused: Of these, how many passed before it made progress.
        redone: Of these, how many became steps that a later attempt did again.
        unnoticed: Of these, how many passed from its last step until its loss was noticed.
        unsaved: Of these, how many became steps that are in no snapshot, at the run's end.
        begins: Whether the run, or its continuation on request, began with it.
    """

    ranks: int
    seconds: float
    paused: float = 0.0
    redone: float = 0.0
    unnoticed: float = 0.0
    unsaved: float = 0.0
    begins: bool = False


@dataclass(frozen=True)
class Goodput:
    """What the paid time of a run became, in seconds of one rank.

    Args:
        paid: All of it.
        begun: Until the first step.
        paused: Between the last step of a world and the first of the next one.
        unnoticed: From the last step before a loss until it was noticed.
        redone: Steps that were done again.
        unsaved: Steps that are in no snapshot, of a run that has ended before its end.
        idle: Nodes that carried none of its ranks, such as those that boot.
        cost: $ for the nodes meanwhile.
    """

    paid: float
    begun: float
    paused: float
    unnoticed: float
    redone: float
    unsaved: float
    idle: float
    cost: float

    @property
    def share(self) -> float:
        """The share of the paid time that became kept progress, from 0 to 1."""
        without_steps = self.begun + self.paused + self.unnoticed + self.idle
        lost = without_steps + self.redone + self.unsaved
        return max(0.0, 1 - lost / self.paid) if self.paid else 0.0


def compute_goodput(
    stretches: Iterable[Stretch], *, capacity: float = 0.0, cost: float = 0.0
) -> Goodput:
    """Return what the paid time of a run became.

    Args:
        stretches: Its attempts.
        capacity: Seconds of one rank for which its cluster's nodes were paid meanwhile; what is
            less than the attempts took does not count.
        cost: $ for these nodes.
    """
    used = begun = paused = unnoticed = redone = unsaved = 0.0
    for one in stretches:
        left = one.seconds
        before = min(one.paused, left)
        left -= before
        after = min(one.unnoticed, left)
        left -= after
        again = min(one.redone, left)
        used += one.ranks * one.seconds
        begun += one.ranks * before * one.begins
        paused += one.ranks * before * (not one.begins)
        unnoticed += one.ranks * after
        redone += one.ranks * again
        unsaved += one.ranks * min(one.unsaved, left - again)
    paid = max(used, capacity)
    return Goodput(paid, begun, paused, unnoticed, redone, unsaved, paid - used, cost)


def sentence(found: Goodput) -> str:
    """Return the share of kept progress, where the rest went, and the cost."""
    parts = (
        ("until the first step", found.begun),
        ("pauses", found.paused),
        ("until a loss was noticed", found.unnoticed),
        ("steps done again", found.redone),
        ("steps that no snapshot has", found.unsaved),
        ("nodes without ranks", found.idle),
    )
    lost = [f"{name} {_format_percent(part / found.paid)}" for name, part in parts if part > 0]
    rest = f" ({', '.join(lost)})" if lost else ""
    price = f" The run cost {dollars(found.cost)}." if found.cost else ""
    time = "paid time" if found.cost else "time"
    return (
        f"Goodput: {_format_percent(found.share)} of the {time} became kept progress{rest}.{price}"
    )


def _format_percent(share: float) -> str:
    return f"{100 * share:.1f} %" if share >= 0.0005 or not share else "under 0.1 %"
