"""The step of a training with step times and gradient noise measured, over one without."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from statistics import median

from .bare import SCRIPTS, run_ranks
from .figures import Row, Series, with_interval
from .place import Place

RANKS = 2
TURNS = 12
UNITS = (256, 1000)
FIGURES = ("median", "mean")
GOAL = 1.005
ON, OFF = "timing and noise scale on", "off"


def measure(place: Place, rounds: int, say: Callable[[str], None]) -> list[Row]:
    """Train both ways in turn, in several worlds for each size."""
    rows = []
    for units in UNITS:
        worlds = [_pairs(place, units) for _ in range(2 * rounds)]
        note = f"MLP 784-{units}-{units}-10, 64 images a rank, {RANKS} ranks"
        rows += [_row(f"step, {which}", worlds, at, note) for at, which in enumerate(FIGURES)]
        found = (f"{row.what} {with_interval(row.pairs)}" for row in rows[-len(FIGURES) :])
        say(f"{units} units: {', '.join(found)}")
    return rows


def _row(what: str, worlds: Sequence[Sequence[Sequence[float]]], at: int, note: str) -> Row:
    """Return the medians of each world, and the ratios of all pairs."""
    on, off = (
        Series(label, tuple(median(pair[2 * at + way] for pair in pairs) for pairs in worlds))
        for way, label in enumerate((ON, OFF))
    )
    ratios = [pair[2 * at] / pair[2 * at + 1] for pairs in worlds for pair in pairs]
    note += f"; {len(ratios)} pairs of blocks"
    return Row(what, "s", on, off, goal=GOAL, note=note, pairs=tuple(ratios))


def _pairs(place: Place, units: int) -> list[list[float]]:
    """Return what one world found in each turn: both ways' medians, and both ways' means."""
    words = (str(place.folder), str(units), str(TURNS))
    ran = run_ranks(place, SCRIPTS / "anatomy_steps.py", RANKS, *words)
    found: dict[str, list[list[float]]] = json.loads(ran.output.splitlines()[-1])
    return found["pairs"]
