"""Open the SQLite file, serialize writes, and explain its errors.

Several processes write. Each write is one short ``BEGIN IMMEDIATE`` transaction that waits up to
``LOCK_SECONDS`` for its turn; readers never wait: the journal is a write-ahead
log. Such a log needs shared memory, so on a disk that machines share the journal is a rollback
journal, and only one machine may use the store.
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any, Self, TypeVar

from workbench.store.claim import Tenure, claim, this_machine
from workbench.store.disk import mount_under
from workbench.store.paths import FILE_NAME, home_directory
from workbench.store.rows import build_row, readable
from workbench.store.schema import check_version, prepare
from workbench.store.sqlite_errors import LOCK_SECONDS, explain_errors

T = TypeVar("T")
_LOCKED = (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)


class Database:
    """The connections of one process to the file, one per thread.

    Args:
        path: The SQLite file (default: the one in ``home_directory()``).
        lock_seconds: How long a write waits for those of other processes.

    Raises:
        StoreError: The file cannot be opened, or another version of workbench wrote it.
        MachineError: The file is on a shared disk, and another machine uses it.
    """

    def __init__(
        self, path: str | Path | None = None, *, lock_seconds: float = LOCK_SECONDS
    ) -> None:
        self.path = Path(path) if path is not None else home_directory() / FILE_NAME
        self._lock_seconds = lock_seconds
        self._local = threading.local()
        self._open: list[sqlite3.Connection] = []
        folder = self.path.absolute().parent
        mount = mount_under(folder)
        self._is_shared = mount.is_shared
        self._tenure: Tenure | None = None
        if self._is_shared:
            claim(folder, mount, this_machine())
            self._tenure = Tenure(folder, mount, this_machine())
        with self.explain_errors():
            prepare(self.connection, str(self.path))

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.path}>"

    def close(self) -> None:
        """Close this process's connections."""
        while self._open:
            self._open.pop().close()
        self._local = threading.local()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def data_version(self) -> int:
        """Return a number that changes whenever another connection has committed.

        Raises:
            StoreNewer: A newer workbench has upgraded the file since it was opened.
        """
        row = self.one("PRAGMA data_version")
        assert row is not None
        if row[0] != getattr(self._local, "version", None):
            self._local.version = row[0]
            with self.explain_errors():
                check_version(self.connection, str(self.path))
        return int(row[0])

    # -- for the parts of the store

    def explain_errors(self) -> AbstractContextManager[None]:
        """Turn SQLite's errors into ours; an open store keeps its claim."""
        if self._tenure is not None:
            self._tenure.keep()
        return explain_errors(self.path, self._lock_seconds)

    @property
    def connection(self) -> sqlite3.Connection:
        """This thread's connection."""
        connection: sqlite3.Connection | None = getattr(self._local, "connection", None)
        if connection is None:
            connection = _connect(self.path, self._lock_seconds, shared=self._is_shared)
            self._local.connection = connection
            self._open.append(connection)
        return connection

    def one(self, query: str, values: Sequence[object] = ()) -> tuple[Any, ...] | None:
        """Return the first row of a query; None if it has none."""
        with self.explain_errors():
            row: tuple[Any, ...] | None = self.connection.execute(query, values).fetchone()
            return row

    def all(self, query: str, values: Sequence[object] = ()) -> list[Any]:
        """Return the rows of a query."""
        with self.explain_errors():
            return self.connection.execute(query, values).fetchall()

    def rows(self, query: str, values: Sequence[object] = ()) -> list[dict[str, Any]]:
        """Return the rows of a query by the names of its columns."""
        with self.explain_errors():
            cursor = self.connection.execute(query, values)
            names = [column[0] for column in cursor.description]
            return [dict(zip(names, row, strict=True)) for row in cursor]

    def values(
        self, kind: type[T], what: str, query: str, values: Sequence[object] = ()
    ) -> list[T]:
        """Return the values in the rows of a query, but for rows that cannot be read.

        Args:
            kind: A dataclass whose fields are columns.
            what: The content of a row, for the log.
        """
        rows = self.rows(query, values)
        return [*readable(self.path, what, rows, lambda row: build_row(kind, row))]

    def some(
        self,
        query: str,
        values: Sequence[object],
        size: Callable[[tuple[Any, ...]], int],
        enough: int,
    ) -> list[Any]:
        """Return rows until their total size exceeds ``enough``; no more are read."""
        rows, total = list[Any](), 0
        with self.explain_errors():
            cursor = self.connection.execute(query, values)
            for row in cursor:
                rows.append(row)
                total += size(row)
                if total > enough:
                    break
            cursor.close()
        return rows

    @contextmanager
    def transaction(self) -> Iterator[sqlite3.Connection]:
        """Write all or nothing, once it is this process's turn."""
        with self.explain_errors():
            connection = self.connection
            connection.execute("BEGIN IMMEDIATE")
            try:
                yield connection
                connection.execute("COMMIT")
            except BaseException:
                if connection.in_transaction:
                    connection.execute("ROLLBACK")
                raise


def _connect(path: Path, lock_seconds: float, *, shared: bool) -> sqlite3.Connection:
    with contextlib.suppress(OSError):  # exists already, or SQLite reports why it cannot
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
    connection = sqlite3.connect(
        path, timeout=lock_seconds, isolation_level=None, check_same_thread=False
    )
    try:
        if connection.execute("PRAGMA page_count").fetchone() == (0,):
            connection.execute("PRAGMA auto_vacuum = INCREMENTAL")
        _use_journal(connection, "DELETE" if shared else "WAL", lock_seconds)
        connection.execute(f"PRAGMA synchronous = {'FULL' if shared else 'NORMAL'}")
    except BaseException:
        connection.close()
        raise
    return connection


def _use_journal(connection: sqlite3.Connection, mode: str, lock_seconds: float) -> None:
    """Set the journal mode of a new file; SQLite itself does not wait here for other processes."""
    deadline = time.monotonic() + lock_seconds
    while True:
        try:
            connection.execute(f"PRAGMA journal_mode = {mode}")
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode not in _LOCKED or time.monotonic() > deadline:
                raise
            time.sleep(0.01)
        else:
            return
