"""Store the events of ranks, each with its place among the points of its run."""

from __future__ import annotations

import sqlite3
from typing import TypeVar

import msgspec

from workbench.core.messages import decode
from workbench.core.run.rank_protocol import Batch
from workbench.store.database import Database
from workbench.store.rows import reading

Kind = TypeVar("Kind")


class RankEvents(Database):
    """The part of the store that holds the events of ranks."""

    def event(self, run: str, kind: type[Kind]) -> Kind | None:
        """Return the newest event of a kind in a run; None if there is none."""
        found = self._events(run, kind, 1)
        return found[0] if found else None

    def events(self, run: str, kind: type[Kind]) -> list[Kind]:
        """Return all events of a kind in a run, in order."""
        return self._events(run, kind, -1)[::-1]

    def _events(self, run: str, kind: type[Kind], limit: int) -> list[Kind]:
        rows = self._all(
            "SELECT event FROM events WHERE run = (SELECT number FROM runs WHERE id = ?) "
            "AND kind = ? ORDER BY sequence DESC LIMIT ?",
            (run, kind.__name__, limit),
        )
        with reading(self.path, f"the events of run {run!r}"):
            return [decode(kind, text) for (text,) in rows]

    def _last_event(self, run: str, before: int) -> list[tuple[int, float]]:
        """Return after which point the last event of rank 0 before a point came, and when.

        Args:
            before: The sequence number of that point.
        """
        rows = self._all(
            "SELECT point, time FROM events WHERE run = (SELECT number FROM runs WHERE id = ?) "
            "AND rank = 0 AND point < ? ORDER BY sequence DESC LIMIT 1",
            (run, before),
        )
        with reading(self.path, f"the events of run {run!r}"):
            return [(int(point), float(time)) for point, time in rows]


def add_events(connection: sqlite3.Connection, run: int, batch: Batch, before: int) -> None:
    """Add the events of a batch that count.

    Args:
        run: The run's number.
        before: The sequence number of the newest point before those of the batch.
    """
    for one in batch.valid_events:
        connection.execute(
            "INSERT INTO events SELECT ?, coalesce(max(sequence), 0) + 1, ?, ?, ?, ?, ?, ? "
            "FROM events WHERE run = ?",
            (
                run,
                batch.rank,
                type(one.event).__name__,
                getattr(one.event, "iteration", 0),
                before + min(one.after, len(batch.samples)),
                one.time,
                msgspec.json.encode(one.event).decode(),
                run,
            ),
        )
