"""Save the downsampled curves of long runs, a piece at a time.

A view reads half a million points a second, so it would need twenty seconds for ten million.
"""

from __future__ import annotations

import logging
import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from workbench.core.run.metrics import is_measured
from workbench.store import SavedCurves, Store

if TYPE_CHECKING:
    from workbench.core.curves.downsampling import Curve

log = logging.getLogger("workbench.supervisor")

# Fewer points after the saved ones are read by a view in half a second.
LEAST_POINTS = 250_000
POINTS_AT_ONCE = 20_000  # read in about 40 ms
LOOK_SECONDS = 60.0


@dataclass
class _Saving:
    """The curves of one run, as far as its points were read."""

    run: str
    redone: int
    last: int = 0
    points: int = 0
    curves: dict[str, Curve] = field(default_factory=dict)


class CurveSaving:
    """Saves the curves of a cluster's long runs.

    Args:
        least: Number of new points from which on a run's curves are saved again.
    """

    def __init__(self, store: Store, cluster: str, least: int = LEAST_POINTS) -> None:
        self._store = store
        self._cluster = cluster
        self._least = least
        self._looked = -math.inf
        self._runs: list[str] = []
        self._saving: _Saving | None = None

    @property
    def is_busy(self) -> bool:
        """Whether points that are due were not read yet."""
        return self._saving is not None or bool(self._runs)

    def turn(self, steady: float) -> None:
        """Read a piece of the points that are due, and save the curves after the last one.

        Args:
            steady: Seconds of a monotonic clock.
        """
        if self._saving is None:
            if not self._runs and steady - self._looked >= LOOK_SECONDS:
                self._looked = steady
                self._runs = self._store.curves.runs_with_points(self._cluster, self._least)
            if self._runs:
                self._saving = self._begin(self._runs.pop())
        elif self._read(self._saving):
            self._save(self._saving)
            self._saving = None

    def _begin(self, run: str) -> _Saving:
        from workbench.core.curves.saved_curves import decode_curves  # NumPy, which is slow to load

        begun = _Saving(run, self._store.curves.count_redone(run))
        if saved := self._store.curves.read_saved(run):
            try:
                begun.curves = decode_curves(saved.document)
                begun.last, begun.points = saved.last, saved.points
            except ValueError:
                log.warning("run %s: its saved curves are damaged, and are made again", run)
        return begun

    def _read(self, saving: _Saving) -> bool:
        """Add some points to the curves; return whether these were the last ones."""
        from workbench.core.curves.downsampling import PAGE_CAPACITY, Curve

        last, found = self._store.reports.point_columns(saving.run, saving.last, POINTS_AT_ONCE)
        saving.last = last
        for name, columns in found.items():
            if not is_measured(name):
                curve = saving.curves.setdefault(name, Curve(PAGE_CAPACITY))
                curve.add(columns.ranks, columns.iterations, columns.values)
                saving.points += len(columns.values)
        return sum(len(columns.values) for columns in found.values()) < POINTS_AT_ONCE

    def _save(self, saving: _Saving) -> None:
        from workbench.core.curves.saved_curves import encode_curves

        saved = SavedCurves(saving.last, saving.points, encode_curves(saving.curves))
        self._store.curves.save(saving.run, saved, saving.redone)
