"""Build values from rows, with an error that names the row that is invalid."""

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
MOST_SAID = 200  # characters
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
_told: set[str] = set()


def built(kind: type[T], values: Mapping[str, Any]) -> T:
    """Return a dataclass whose fields are as declared; ValueError where they cannot be."""
    found: T = _adapter(kind).validate_python(dict(values))  # type: ignore[arg-type]  # a class
    return found


@contextmanager
def reading(path: Path, what: str) -> Iterator[None]:
    """Explain a row that makes no sense.

    Args:
        path: The store.
        what: Whose row it is, such as ``run 'fit'``.

    Raises:
        RowUnreadable: It does not.
    """
    try:
        yield
    except _NONSENSE as error:
        raise RowUnreadable(
            f"What the store {path} holds of {what} cannot be read ({_said(error)}); another "
            "version of workbench or another program wrote it. The rest of the store is not "
            "touched by it."
        ) from error


def readable(path: Path, what: str, rows: Iterable[Any], decode: Callable[[Any], T]) -> Iterator[T]:
    """Give what can be read of ``rows``; the rest is logged, once."""
    for row in rows:
        try:
            with reading(path, what):
                value = decode(row)
        except RowUnreadable as error:
            if str(error) not in _told and len(_told) < MOST_SAID:
                _told.add(str(error))
                log.warning("%s", error)
        else:
            yield value


def _said(error: Exception) -> str:
    if errors := getattr(error, "errors", None):  # pydantic's
        first = errors()[0]
        error = ValueError(f"{'.'.join(map(str, first['loc']))}: {first['msg']}")
    return " ".join(str(error).split())[:MOST_SAID] or type(error).__name__


@cache
def _adapter(kind: type[Any]) -> TypeAdapter[Any]:
    from pydantic import TypeAdapter  # a server that shows no run needs none of it

    return TypeAdapter(kind)
