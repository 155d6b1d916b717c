"""Gather what the store holds of one run, by sequence number, for a view to draw."""

from __future__ import annotations

from collections.abc import Iterator

from workbench.core.cluster import ClusterFact
from workbench.core.run import Run, RunState
from workbench.core.sampling import Curve
from workbench.notebook.transcript import Transcript
from workbench.store import OutputRow, Store

POINTS_AT_ONCE = 20_000
PIECES_AT_ONCE = 5_000


class Record:
    """All that was read of a run so far.

    Args:
        run: The run as it was when reading began.
    """

    def __init__(self, run: Run) -> None:
        self.run = run
        self.cluster = ClusterFact(run.wish.cluster)
        self.before: tuple[Run, ...] = ()
        self.curves: dict[str, Curve] = {}
        self.transcript = Transcript()
        self.points = 0
        self._point = 0
        self._piece = 0

    def __repr__(self) -> str:
        return f"<Record of {self.run.wish.name}: {self.points} points>"

    def look(self, store: Store) -> None:
        """Take in where the run and its cluster stand."""
        self.run = store.run(self.run.id)
        self.cluster = store.cluster_fact(self.run.wish.cluster)
        if self.run.fact.state is RunState.QUEUED:
            self.before = self._queue(store)

    def read(self, store: Store) -> Iterator[list[OutputRow]]:
        """Take in all that is new, and yield the new output piece by piece."""
        # The state first: what is written before a run ends is then read after its end was seen.
        self.look(store)
        while self._read_points(store):
            pass
        while rows := store.output(self.run.id, self._piece, PIECES_AT_ONCE):
            self._piece = rows[-1].sequence
            for row in rows:
                self.transcript.feed(row.rank, row.text)
            yield rows

    def _read_points(self, store: Store) -> bool:
        rows = store.points(self.run.id, self._point, POINTS_AT_ONCE)
        for row in rows:
            curve = self.curves.get(row.name)
            if curve is None:
                curve = self.curves[row.name] = Curve()
            curve.add(row.rank, row.iteration, row.value)
        if rows:
            self._point = rows[-1].sequence
            self.points += len(rows)
        return len(rows) == POINTS_AT_ONCE

    def _queue(self, store: Store) -> tuple[Run, ...]:
        unfinished = store.unfinished(self.run.wish.cluster)
        identities = [run.id for run in unfinished]
        if self.run.id not in identities:
            return ()
        return tuple(unfinished[: identities.index(self.run.id)])
