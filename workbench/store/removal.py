"""Report the size of runs, and delete them in small pieces, so that no process has to wait long."""

from __future__ import annotations

import os
import shutil
import sqlite3
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from workbench.core.recovery.retention import KeptRun, Retention
from workbench.core.run.model import ENDED
from workbench.core.run.rank_protocol import SnapshotSaved
from workbench.core.run_id import is_run_id
from workbench.errors import StoreError
from workbench.store.database import Database
from workbench.store.disk import used_nbytes
from workbench.store.rows import insert, json_of, of_json

# Deleting a piece takes some milliseconds, during which no other process can write.
PIECE_ROWS = 10_000
PIECE_PAGES = 500
_POINT_NBYTES = 40
# Deleted runs whose snapshots are removed from nodes when these are seen.
MOST_REMOVED = 1_000
_ROWS = ("points", "superseded", "events", "output", "displays")  # of one run, by sequence
_FEW = ("latest", "deliveries", "attempts", "saved_curves")  # a handful of rows each
_RETENTION = "retention"
_ENDED = tuple(sorted(ENDED))
_MARKS = ", ".join("?" * len(_ENDED))


class Usage(NamedTuple):
    """The disk space that the store uses.

    Args:
        store: Size of the store's files in bytes.
        spare: Bytes of these that are free for new rows.
        runs: Size of the runs' folders in bytes: logs not yet in the store, and outputs of runs.
        number: Number of runs.
    """

    store: int
    spare: int
    runs: int
    number: int

    @property
    def nbytes(self) -> int:
        """Return the bytes that are in use."""
        return self.store - self.spare + self.runs


class Removal:
    """The size of runs, and their deletion."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def usage(self) -> Usage:
        """Return the disk space that the store uses."""
        (number,) = self._database.one("SELECT count(*) FROM runs") or (0,)
        pages = self._database.one(
            "SELECT page_size, freelist_count FROM pragma_page_size, pragma_freelist_count"
        ) or (0, 0)
        files = [
            self._database.path.with_name(self._database.path.name + end)
            for end in ("", "-wal", "-shm")
        ]
        store = sum(path.stat().st_size for path in files if path.exists())
        return Usage(store, pages[0] * pages[1], used_nbytes(self._runs_folder), number)

    def list_kept(self, ids: Iterable[str] = ()) -> list[KeptRun]:
        """Return ended runs, including the repeats of set-up cells.

        Args:
            ids: Those of some (default: all). Each run is measured, which takes a while for many.
        """
        named = tuple(ids)
        marks = ", ".join("?" * len(named))
        rows = self._database.all(
            "SELECT number, id, name, ended FROM runs "
            f"WHERE state IN ({_MARKS}) AND (? OR id IN ({marks}))",
            (*_ENDED, not named, *named),
        )
        return [KeptRun(id_, name, ended, self._nbytes(n, id_)) for n, id_, name, ended in rows]

    def oldest(self) -> KeptRun | None:
        """Return the run that ended first of those that may be deleted automatically; not measured.

        The newest measurement of each cluster is never among them: plans use it.
        """
        row = self._database.one(
            f"SELECT id, name, ended FROM runs WHERE state IN ({_MARKS}) AND id NOT IN "
            "(SELECT run FROM (SELECT run, max(time) FROM surveys GROUP BY cluster)) "
            "ORDER BY ended, number LIMIT 1",
            _ENDED,
        )
        return KeptRun(row[0], row[1], row[2], 0) if row else None

    def delete_run(self, run: str) -> bool:
        """Delete an ended run for all views; ``sweep`` deletes its data.

        Returns:
            Whether the run was deleted: a run that has not ended is kept.
        """
        with self._database.transaction() as connection:
            found = connection.execute(
                f"SELECT number FROM runs WHERE id = ? AND state IN ({_MARKS})", (run, *_ENDED)
            ).fetchone()
            if found is None:
                return False
            connection.execute("INSERT OR IGNORE INTO deleted_runs VALUES (?, ?)", (found[0], run))
            _note_snapshots(connection, int(found[0]))
            connection.execute("DELETE FROM runs WHERE number = ?", found)
            for table in ("surveys", "open_pages", "conclusions"):
                connection.execute(f"DELETE FROM {table} WHERE run = ?", (run,))
            connection.execute("DELETE FROM forecasts WHERE source = ?", (run,))
            for table in _FEW:
                connection.execute(f"DELETE FROM {table} WHERE run = ?", found)
        return True

    def ended_runs(self, cluster: str) -> list[str]:
        """Return the runs of a cluster that have ended, the one that ended first before others."""
        rows = self._database.all(
            f"SELECT id FROM runs WHERE cluster = ? AND state IN ({_MARKS}) ORDER BY ended, number",
            (cluster, *_ENDED),
        )
        return [str(run) for (run,) in rows]

    def removed_snapshots(self, cluster: str) -> list[str]:
        """Return the deleted runs of a cluster that had snapshots, the newest first."""
        rows = self._database.all(
            "SELECT run FROM removed_snapshots WHERE cluster = ? ORDER BY number DESC", (cluster,)
        )
        return [str(run) for (run,) in rows]

    def sweep(self) -> bool:
        """Delete a piece of the data of deleted runs; false if nothing is left.

        Raises:
            StoreError: A run's folder cannot be removed.
        """
        row = self._database.one("SELECT number, id FROM deleted_runs LIMIT 1")
        if row is None:
            return self._shrink()
        number, run = row
        self.remove_folder(run)  # first: on a full disk this frees the space that the rest needs
        with self._database.transaction() as connection:
            if not any(_delete_piece(connection, table, number) for table in _ROWS):
                connection.execute("DELETE FROM deleted_runs WHERE number = ?", (number,))
        return True

    def remove_folder(self, run: str) -> None:
        """Delete the folder of a run.

        Raises:
            StoreError: It cannot be deleted.
        """
        folder = self._runs_folder / run
        if not is_run_id(run) or not os.path.lexists(folder):
            return
        try:
            if folder.is_symlink():
                folder.unlink()
            else:
                shutil.rmtree(folder)
        except OSError as error:
            raise StoreError(
                f"{error.filename or folder} cannot be deleted ({error.strerror})",
                "correct its permissions, and delete the run again.",
            ) from error

    def compact(self) -> None:
        """Free the disk space that ``sweep`` could not, in a store that an older workbench made.

        No other process may have the store open.
        """
        if self._database.one("PRAGMA auto_vacuum") == (2,):
            return
        if (
            shutil.disk_usage(self._database.path.parent).free
            > 2 * self._database.path.stat().st_size
        ):
            self._database.all("PRAGMA auto_vacuum = INCREMENTAL")
            self._database.all("VACUUM")
            self._database.all("PRAGMA wal_checkpoint(TRUNCATE)")

    # -- settings

    def retention(self) -> Retention:
        """Return how long ended runs are kept; forever if that cannot be read."""
        row = self._database.one("SELECT value FROM settings WHERE name = ?", (_RETENTION,))
        try:
            return of_json(Retention, row[0]) if row else Retention()
        except (ValueError, TypeError):
            return Retention()

    def put_retention(self, retention: Retention) -> None:
        """Set how long ended runs are kept."""
        row = {"name": _RETENTION, "value": json_of(retention)}
        with self._database.transaction() as connection:
            insert(connection, "settings", row, "REPLACE")

    # -- inside

    @property
    def _runs_folder(self) -> Path:
        return self._database.path.parent / "runs"

    def _nbytes(self, number: int, run: str) -> int:
        (points, curves, output, displays) = self._database.one(
            "SELECT (SELECT coalesce(max(sequence), 0) FROM points WHERE run = ?), "
            "(SELECT total(length(document)) FROM saved_curves WHERE run = ?), "
            "(SELECT total(length(text)) FROM output WHERE run = ?), "
            "(SELECT total(size) FROM displays WHERE run = ?)",
            (number, number, number, number),
        ) or (0, 0, 0, 0)
        folder = used_nbytes(self._runs_folder / run) if is_run_id(run) else 0
        return int(points * _POINT_NBYTES + curves + output + displays) + folder

    def _shrink(self) -> bool:
        """Return some free pages to the file system."""
        (spare,) = self._database.one("PRAGMA freelist_count") or (0,)
        if not spare or self._database.one("PRAGMA auto_vacuum") != (2,):
            return False
        with (
            self._database.explain_errors()
        ):  # a script runs to the end, a statement ends at one page
            self._database.connection.executescript(f"PRAGMA incremental_vacuum({PIECE_PAGES})")
        if spare <= PIECE_PAGES:
            self._database.all("PRAGMA wal_checkpoint(TRUNCATE)")
        return bool(spare > PIECE_PAGES)


def _note_snapshots(connection: sqlite3.Connection, number: int) -> None:
    """Note that snapshots of a run may be on nodes, which are not all there now."""
    connection.execute(
        "INSERT OR IGNORE INTO removed_snapshots SELECT number, id, cluster FROM runs "
        "WHERE number = ? AND EXISTS "
        "(SELECT 1 FROM events WHERE run = runs.number AND kind = ?)",
        (number, SnapshotSaved.__name__),
    )
    connection.execute(
        "DELETE FROM removed_snapshots WHERE number <= (SELECT number FROM removed_snapshots "
        "ORDER BY number DESC LIMIT 1 OFFSET ?)",
        (MOST_REMOVED,),
    )


def _delete_piece(connection: sqlite3.Connection, table: str, run: int) -> bool:
    """Delete some rows of a run; return whether there were any."""
    row = connection.execute(
        f"SELECT sequence FROM {table} WHERE run = ? ORDER BY sequence LIMIT 1", (run,)
    ).fetchone()
    if row is None:
        return False
    connection.execute(
        f"DELETE FROM {table} WHERE run = ? AND sequence < ?", (run, row[0] + PIECE_ROWS)
    )
    return True
