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

from workbench.errors import DataRefused, StoreError, StoreFull, StoreUnavailable
from workbench.store.claim import Tenure, claim, this_machine
from workbench.store.disk import disk_under, mount_under
from workbench.store.paths import FILE_NAME, home_directory
from workbench.store.rows import build_row, readable
from workbench.store.schema import check_version, prepare

LOCK_SECONDS = 10.0

_MOVED = (sqlite3.SQLITE_READONLY_DBMOVED,)
_BUSY = (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_PROTOCOL)
_DEFECTS = (
    sqlite3.SQLITE_CONSTRAINT,
    sqlite3.SQLITE_MISMATCH,
    sqlite3.SQLITE_RANGE,
    sqlite3.SQLITE_TOOBIG,
    sqlite3.SQLITE_MISUSE,
)
# What SQLite raises about the values of a statement, before it reads the file.
_VALUES = (
    OverflowError,
    UnicodeEncodeError,
    sqlite3.InterfaceError,
    sqlite3.ProgrammingError,
    sqlite3.DataError,
)

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


@contextmanager
def explain_errors(path: Path, lock_seconds: float = LOCK_SECONDS) -> Iterator[None]:
    """Turn SQLite's errors into sentences with a remedy.

    Args:
        path: The store.
        lock_seconds: How long a statement waits for the lock of another process.

    Raises:
        StoreUnavailable: The same may work later.
        DataRefused: A value cannot be stored.
        StoreError: It fails until the user has fixed the cause.
    """
    try:
        yield
    except _VALUES as error:
        raise DataRefused(_defect(path, error)) from error
    except sqlite3.Error as error:
        raise _error_of(path, error, lock_seconds) from error


def _error_of(path: Path, error: sqlite3.Error, lock_seconds: float) -> StoreError:
    code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR)
    kind = code & 0xFF
    if code in _MOVED:
        return StoreError(
            f"The store {path} was moved or deleted while it was in use",
            "put it back, or delete its clusters and start them again.",
        )
    if kind in (sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_CANTOPEN):
        return _disk_error(path, kind)
    if kind in _BUSY:
        return StoreUnavailable(
            f"The store {path} was busy for {lock_seconds:g} s",
            "end the program that holds it, and try again.",
        )
    if kind in _DEFECTS:
        return DataRefused(_defect(path, error))
    known = {
        sqlite3.SQLITE_READONLY: (
            "cannot be written",
            "correct its permissions, or set WORKBENCH_HOME.",
        ),
        sqlite3.SQLITE_PERM: (
            "cannot be read",
            "correct its permissions, or set WORKBENCH_HOME.",
        ),
        sqlite3.SQLITE_NOTADB: (
            "is not a workbench store",
            "move the file away, or set WORKBENCH_HOME.",
        ),
        sqlite3.SQLITE_CORRUPT: (
            "is damaged, and was left as it is",
            "move it away, save what can be read with "
            f"`sqlite3 {path.name} .recover | sqlite3 new.sqlite3`, and put that in its place. "
            "`workbench sweep-leaks` finds nodes that still cost.",
        ),
        sqlite3.SQLITE_NOMEM: (
            "could not be read, because this machine is out of memory",
            "end other programs, and try again.",
        ),
    }.get(kind)
    what, remedy = known or (
        f"is not as this workbench expects it ({error})",
        "another program may have changed it: move the file away, or set WORKBENCH_HOME.",
    )
    return StoreError(f"The store {path} {what}", remedy)


def _disk_error(path: Path, kind: int) -> StoreError:
    try:
        disk = disk_under(path)
    except OSError as error:
        return StoreError(
            f"The store {path} cannot be reached ({error.strerror})", "check its disk."
        )
    if kind == sqlite3.SQLITE_FULL or disk.is_full:
        return StoreFull(
            f"The store {path} cannot be written: its disk is full, {disk}",
            "make room (`workbench runs --delete` frees what runs took), or set WORKBENCH_HOME "
            "to a folder on another disk.",
        )
    if kind == sqlite3.SQLITE_CANTOPEN:
        return StoreError(
            f"The store {path} cannot be opened", "correct its permissions, or set WORKBENCH_HOME."
        )
    return StoreUnavailable(
        f"The store {path} cannot be read or written (disk I/O error) on {disk}",
        "check whether your quota is used up, or the disk is broken.",
    )


def _defect(path: Path, error: Exception) -> str:
    return (
        f"The store {path} refused what workbench was about to write ({error}): this is a defect "
        "of workbench, please report it with this sentence; nothing that was kept is lost."
    )
