"""Open the SQLite file, take turns at writing it, and explain its errors.

Several processes write. Each write is one short ``BEGIN IMMEDIATE`` transaction that waits up to
``BUSY_SECONDS`` for its turn; readers never wait, the journal is a write-ahead log.
"""

from __future__ import annotations

import os
import sqlite3
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Self

from workbench.errors import StoreError
from workbench.store.home import home_directory
from workbench.store.schema import migrate

BUSY_SECONDS = 10.0
FILE_NAME = "store.sqlite3"


class Database:
    """One process's connections to the file, one for each of its threads.

    Args:
        path: The SQLite file; by default the one in ``home_directory()``.

    Raises:
        StoreError: The file cannot be opened, or a newer workbench wrote it.
    """

    def __init__(self, path: str | Path | None = None) -> None:
        self.path = Path(path) if path is not None else home_directory() / FILE_NAME
        self._local = threading.local()
        self._open: list[sqlite3.Connection] = []
        with _explained(self.path):
            migrate(self._connection, str(self.path))

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
        """Return a number that changes whenever another connection has committed."""
        row = self._one("PRAGMA data_version")
        assert row is not None
        return int(row[0])

    # -- inside

    @property
    def _connection(self) -> sqlite3.Connection:
        connection: sqlite3.Connection | None = getattr(self._local, "connection", None)
        if connection is None:
            connection = _connect(self.path)
            self._local.connection = connection
            self._open.append(connection)
        return connection

    def _one(self, query: str, values: Sequence[object] = ()) -> tuple[Any, ...] | None:
        with _explained(self.path):
            row: tuple[Any, ...] | None = self._connection.execute(query, values).fetchone()
            return row

    def _all(self, query: str, values: Sequence[object] = ()) -> list[Any]:
        with _explained(self.path):
            return self._connection.execute(query, values).fetchall()

    @contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        with _explained(self.path):
            connection = self._connection
            connection.execute("BEGIN IMMEDIATE")
            try:
                yield connection
                connection.execute("COMMIT")
            except BaseException:
                if connection.in_transaction:
                    connection.execute("ROLLBACK")
                raise


def _connect(path: Path) -> sqlite3.Connection:
    fresh = not path.exists()
    connection = sqlite3.connect(
        path, timeout=BUSY_SECONDS, isolation_level=None, check_same_thread=False
    )
    if fresh:
        os.chmod(path, 0o600)
    _use_write_ahead_log(connection)
    connection.execute("PRAGMA synchronous = NORMAL")
    return connection


def _use_write_ahead_log(connection: sqlite3.Connection) -> None:
    """Switch a fresh file over; SQLite does not wait by itself when several processes do."""
    deadline = time.monotonic() + BUSY_SECONDS
    while True:
        try:
            connection.execute("PRAGMA journal_mode = WAL")
        except sqlite3.OperationalError as error:
            if "locked" not in str(error) or time.monotonic() > deadline:
                raise
            time.sleep(0.01)
        else:
            return


@contextmanager
def _explained(path: Path) -> Iterator[None]:
    """Turn SQLite's errors into sentences with a remedy."""
    try:
        yield
    except sqlite3.Error as error:
        raise StoreError(f"The store {path} {_remedy(str(error))}") from error


def _remedy(reason: str) -> str:
    remedies = {
        "full": "is on a full disk; make room, or set WORKBENCH_HOME to another disk.",
        "readonly": "cannot be written; mend its permissions, or set WORKBENCH_HOME.",
        "unable to open": "cannot be opened; mend its permissions, or set WORKBENCH_HOME.",
        "locked": f"was busy for {BUSY_SECONDS:.0f} s; end the program that holds it, try again.",
        "not a database": "is not a workbench store; move the file away, or set WORKBENCH_HOME.",
        "malformed": "is damaged; move the file away, or set WORKBENCH_HOME to another folder.",
        "disk I/O": "cannot be read or written (disk I/O error); see whether the disk is full.",
    }
    for part, remedy in remedies.items():
        if part in reason:
            return remedy
    return f"answered: {reason}; set WORKBENCH_HOME to another folder to start afresh."
