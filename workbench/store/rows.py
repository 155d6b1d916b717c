"""Build values from rows; an error names the row that is invalid."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from workbench.errors import InputError, MachineError, RowUnreadable

if TYPE_CHECKING:
    from pydantic import TypeAdapter

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


def built(kind: type[T], values: Mapping[str, Any]) -> T:
    """Return a dataclass with fields of the declared types; ValueError if they are not."""
    found: T = _adapter(kind).validate_python(dict(values))  # type: ignore[arg-type]  # a class
    return found


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
        raise RowUnreadable(
            f"The row of {what} in the store {path} cannot be read ({_reason(error)}), because "
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


def _reason(error: Exception) -> str:
    if errors := getattr(error, "errors", None):  # pydantic's
        first = errors()[0]
        error = ValueError(f"{'.'.join(map(str, first['loc']))}: {first['msg']}")
    return " ".join(str(error).split())[:MOST_REASON] or type(error).__name__


@cache
def _adapter(kind: type[Any]) -> TypeAdapter[Any]:
    from pydantic import TypeAdapter  # slow to load; a server that shows no run does not need it

    return TypeAdapter(kind)
