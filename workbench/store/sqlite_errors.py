"""Map SQLite's errors to ours, each with its remedy."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from workbench.errors import DataRefused, StoreError, StoreFull, StoreUnavailable
from workbench.store.disk import disk_under

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
