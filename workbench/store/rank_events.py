"""Store the events of ranks, each with its place among the points of its run."""

from __future__ import annotations

import sqlite3
from typing import TypeVar

from workbench.core.run.rank_protocol import Batch, PointsSaved
from workbench.store.database import Database
from workbench.store.rows import insert, json_of, of_json, reading

Kind = TypeVar("Kind")


class RankEvents:
    """The events of ranks."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def newest(self, run: str, kind: type[Kind]) -> Kind | None:
        """Return the newest event of a kind in a run; None if there is none."""
        found = self._events(run, kind, 1)
        return found[0] if found else None

    def all(self, run: str, kind: type[Kind]) -> list[Kind]:
        """Return all events of a kind in a run, in order."""
        return self._events(run, kind, -1)[::-1]

    def _events(self, run: str, kind: type[Kind], limit: int) -> list[Kind]:
        rows = self._database.all(
            "SELECT event FROM events WHERE run = (SELECT number FROM runs WHERE id = ?) "
            "AND kind = ? ORDER BY sequence DESC LIMIT ?",
            (run, kind.__name__, limit),
        )
        with reading(self._database.path, f"the events of run {run!r}"):
            return [of_json(kind, text) for (text,) in rows]

    def last_before(self, run: str, before: int) -> list[tuple[int, float]]:
        """Return after which point the last event of rank 0 before a point came, and when.

        Args:
            before: The sequence number of that point.
        """
        rows = self._database.all(
            "SELECT point, time FROM events WHERE run = (SELECT number FROM runs WHERE id = ?) "
            "AND rank = 0 AND point < ? ORDER BY sequence DESC LIMIT 1",
            (run, before),
        )
        with reading(self._database.path, f"the events of run {run!r}"):
            return [(int(point), float(time)) for point, time in rows]


def add_events(connection: sqlite3.Connection, run: int, batch: Batch, before: int) -> None:
    """Add the events of a batch that count, but for points, which have their own table.

    Args:
        run: The run's number.
        before: The sequence number of the newest point before those of the batch.
    """
    (last,) = connection.execute(
        "SELECT coalesce(max(sequence), 0) FROM events WHERE run = ?", (run,)
    ).fetchone()
    events = [one for one in batch.valid_events if not isinstance(one.event, PointsSaved)]
    for sequence, one in enumerate(events, last + 1):
        columns = {
            "run": run,
            "sequence": sequence,
            "rank": batch.rank,
            "kind": type(one.event).__name__,
            "iteration": getattr(one.event, "iteration", 0),
            "point": before + min(one.after, len(batch.samples)),
            "time": one.time,
            "event": json_of(one.event),
        }
        insert(connection, "events", columns)
