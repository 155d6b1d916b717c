"""Store the downsampled curves of long runs, so that views open them without reading all points."""

from __future__ import annotations

import sqlite3
from dataclasses import dataclass

from workbench.store.database import Database
from workbench.store.rows import build_row, columns_of, insert, reading

_NBYTES_A_POINT = 4  # a tenth of what the point itself takes


@dataclass(frozen=True)
class SavedCurves:
    """The curves of a run up to one of its points.

    Args:
        last: Sequence number of that point.
        points: Number of points in the curves.
        document: See ``core.curves.encode_curves``.
    """

    last: int
    points: int
    document: bytes


class Curves:
    """The downsampled curves of long runs."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def read_saved(self, run: str) -> SavedCurves | None:
        """Return the saved curves of ``run``; None if it has none."""
        rows = self._database.rows(
            "SELECT * FROM saved_curves WHERE run = (SELECT number FROM runs WHERE id = ?)", (run,)
        )
        with reading(self._database.path, f"the saved curves of run {run!r}"):
            return build_row(SavedCurves, rows[0]) if rows else None

    def save(self, run: str, curves: SavedCurves, redone: int) -> bool:
        """Save the curves of ``run`` in place of older ones.

        Args:
            redone: Return value of ``redone`` before the first point was read.

        Returns:
            Whether they were saved; not if points were set aside since.
        """
        with self._database.transaction() as connection:
            if _count_redone(connection, run) != redone:
                return False
            number = connection.execute("SELECT number FROM runs WHERE id = ?", (run,)).fetchone()
            if number is not None:
                row = {"run": number[0], **columns_of(curves)}
                insert(connection, "saved_curves", row, "REPLACE")
        return True

    def count_redone(self, run: str) -> int:
        """Return a number that changes when points are set aside because they are done again."""
        return _count_redone(self._database.connection, run)

    def runs_with_points(self, cluster: str, least: int) -> list[str]:
        """Return the runs of a cluster with ``least`` points or more after their saved curves.

        Of many ranks and names the curves are large: then there are more points, so that saving
        writes at most ``_NBYTES_A_POINT`` for each.
        """
        rows = self._database.all(
            "SELECT id FROM runs LEFT JOIN saved_curves ON run = number WHERE cluster = ? AND "
            "(SELECT max(sequence) FROM points WHERE points.run = number) >= "
            "coalesce(last, 0) + max(?, coalesce(length(document), 0) / ?) ORDER BY number DESC",
            (cluster, least, _NBYTES_A_POINT),
        )
        return [str(run) for (run,) in rows]


def _count_redone(connection: sqlite3.Connection, run: str) -> int:
    row = connection.execute(
        "SELECT max(sequence) FROM superseded WHERE run = (SELECT number FROM runs WHERE id = ?)",
        (run,),
    ).fetchone()
    return int(row[0] or 0)
