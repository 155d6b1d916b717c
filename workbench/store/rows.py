"""Turn rows into values and back, by the names of fields; an error names the row that is invalid.

A column has the name of a field. A text, a number, a truth value or a member of an enumeration of
texts is stored as it is; any other value is stored as JSON.
"""

from __future__ import annotations

import json
import logging
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import fields
from functools import cache
from pathlib import Path
from typing import Any, TypeVar, get_type_hints

import msgspec

from workbench.core.messages import learn_type
from workbench.errors import InputError, MachineError, RowUnreadable

log = logging.getLogger("workbench.store")

T = TypeVar("T")
MOST_REASON = 200  # characters
_NONSENSE = (
    ArithmeticError,
    AttributeError,
    InputError,
    LookupError,
    MachineError,
    RecursionError,
    TypeError,
    ValueError,
)
_logged: set[str] = set()


def columns_of(value: Any) -> dict[str, object]:
    """Return the columns of a dataclass, by the names of its fields."""
    kind: Any = type(value)
    found = ((name, getattr(value, name), is_json) for name, is_json in _find_layout(kind))
    return {name: json_of(field) if is_json else field for name, field, is_json in found}


def insert(
    connection: sqlite3.Connection,
    table: str,
    columns: Mapping[str, object],
    conflict: str = "ABORT",
) -> None:
    """Insert a row.

    Args:
        columns: Its values, by the names of the columns.
        conflict: What becomes of a row with the same key, as SQLite calls it: ``REPLACE`` it, or
            ``IGNORE`` the new one.
    """
    connection.execute(
        f"INSERT OR {conflict} INTO {table} ({', '.join(columns)}) "
        f"VALUES ({', '.join('?' * len(columns))})",
        (*columns.values(),),
    )


def insert_or_update(
    connection: sqlite3.Connection,
    table: str,
    columns: Mapping[str, object],
    key: Sequence[str],
    **changes: str,
) -> None:
    """Insert a row, or change the one with the same key.

    Args:
        columns: The values of a new row, by the names of the columns.
        key: The columns that are unique together.
        changes: What each column gets that changes in a row that is there: SQL, in which
            ``excluded`` is the new row.
    """
    connection.execute(
        f"INSERT INTO {table} ({', '.join(columns)}) VALUES ({', '.join('?' * len(columns))}) "
        f"ON CONFLICT ({', '.join(key)}) DO UPDATE SET "
        + ", ".join(f"{name} = {value}" for name, value in changes.items()),
        (*columns.values(),),
    )


def update(
    connection: sqlite3.Connection, table: str, columns: Mapping[str, object], **key: object
) -> None:
    """Set columns of the rows with a key.

    Args:
        columns: The new values, by the names of the columns.
        key: The columns that say which rows, and their values.
    """
    connection.execute(
        f"UPDATE {table} SET {', '.join(f'{name} = ?' for name in columns)} "
        f"WHERE {' AND '.join(f'{name} = ?' for name in key)}",
        (*columns.values(), *key.values()),
    )


def build_row(kind: type[T], row: Mapping[str, Any]) -> T:
    """Return the dataclass in a row; ValueError if a column is not of the declared type.

    Args:
        row: Its columns by name; those that are no field are left out.
    """
    return _convert(
        kind,
        {
            name: json.loads(row[name]) if is_json else row[name]
            for name, is_json in _find_layout(kind)  # type: ignore[arg-type]  # a class
            if name in row
        },
    )


def json_of(value: object) -> str:
    """Return a value of a declared type as it is stored."""
    return json.dumps(msgspec.to_builtins(value, str_keys=True), separators=(",", ":"))


def of_json(kind: type[T], text: str) -> T:
    """Return the value that ``json_of`` encoded; ValueError if it is not of the declared type."""
    return _convert(kind, json.loads(text))


@contextmanager
def reading(path: Path, what: str) -> Iterator[None]:
    """Turn errors while a row is read into one that names the row.

    Args:
        path: The store.
        what: The content of the row, such as ``run 'fit'``.

    Raises:
        RowUnreadable: The row is invalid.
    """
    try:
        yield
    except _NONSENSE as error:
        reason = " ".join(str(error).split())[:MOST_REASON] or type(error).__name__
        raise RowUnreadable(
            f"The row of {what} in the store {path} cannot be read ({reason}), because "
            "another version of workbench or another program wrote it",
            "the rest of the store is not affected.",
        ) from error


def readable(path: Path, what: str, rows: Iterable[Any], decode: Callable[[Any], T]) -> Iterator[T]:
    """Yield the rows that can be read; log each of the others once."""
    for row in rows:
        try:
            with reading(path, what):
                value = decode(row)
        except RowUnreadable as error:
            if str(error) not in _logged and len(_logged) < MOST_REASON:
                _logged.add(str(error))
                log.warning("%s", error)
        else:
            yield value


def _convert(kind: type[T], values: Any) -> T:
    learn_type(kind)  # type: ignore[arg-type]  # a class
    # Not strict: SQLite keeps truth values as numbers.
    return msgspec.convert(values, kind, strict=False, str_keys=True)


@cache
def _find_layout(kind: Any) -> tuple[tuple[str, bool], ...]:
    """Return the names of a dataclass's fields, each with whether it is stored as JSON."""
    hints = get_type_hints(kind)
    return tuple((one.name, not _is_plain(hints[one.name])) for one in fields(kind))


def _is_plain(hint: object) -> bool:
    return isinstance(hint, type) and issubclass(hint, str | int | float | bytes)
