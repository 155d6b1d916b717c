"""Validate the values in a node's answers: a node is not trusted."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import MISSING, dataclass, fields, is_dataclass
from functools import cache
from typing import Annotated, Any, Protocol, TypeVar, get_args, get_origin, get_type_hints

from workbench.core.quote import shown
from workbench.errors import ProtocolError

MOST = 2**53  # bytes, files: no node has more, and each language counts exactly up to it
MOST_PID = 2**22  # <linux/threads.h>
PATH_NBYTES = 4_096  # <linux/limits.h>

Kind = TypeVar("Kind")


class Bound(Protocol):
    """What a value of a declared type may be, beside that type."""

    def allows(self, value: Any) -> bool:
        """Return whether it may be this one."""
        ...


@dataclass(frozen=True)
class Between:
    """A number from ``low`` to ``high``."""

    low: float
    high: float

    def allows(self, value: float) -> bool:
        """Return whether it is within; what is not a number is within nothing."""
        return self.low <= value <= self.high


@dataclass(frozen=True)
class AtMost:
    """A text of at most so many bytes."""

    nbytes: int

    def allows(self, value: str) -> bool:
        """Return whether it is as short."""
        return len(value.encode(errors="surrogatepass")) <= self.nbytes


_AMOUNT = Between(0, MOST)
"""The bound of each number that is declared without one: all that is counted and measured."""

Pid = Annotated[int, Between(1, MOST_PID)]
Path = Annotated[str, AtMost(PATH_NBYTES)]


def take(kind: str, values: Sequence[Any], *types: type) -> list[Any]:
    """Return the values of a message if their number and types are as given.

    Raises:
        ProtocolError: They are not; the error names the value.
    """
    message = [kind, *values]
    if len(values) != len(types):
        raise ProtocolError(f"it sent {shown(message)}, with a wrong number of values")
    for value, wanted in zip(values, types, strict=True):
        if not _is_of(wanted, value):
            raise ProtocolError(f"it sent {shown(message)}, where {shown(value)} is out of place")
    return [*values]


def parsed(data: str | bytes) -> Any:
    """Return the decoded JSON.

    Raises:
        ProtocolError: It is invalid.
    """
    try:
        return json.loads(data)
    except (ValueError, RecursionError):  # UnicodeDecodeError is a ValueError
        raise ProtocolError(f"it sent {shown(data[:200])}, which is not JSON") from None


def built(kind: type[Kind], body: Any) -> Kind:
    """Return a dataclass from a JSON object if each field has the declared type.

    Raises:
        ProtocolError: A field is missing, unknown, or of another type.
    """
    declared: Any = kind
    hints, needed = _declared(declared)
    if type(body) is not dict or not body.keys() <= hints.keys():
        raise ProtocolError(f"it sent {shown(body)}, which is not a valid {kind.__name__}")
    if missing := needed - body.keys():
        raise ProtocolError(f"its {kind.__name__} lacks {shown(min(missing))}")
    return kind(**{name: fitted(hints[name], value) for name, value in body.items()})


def fitted(hint: Any, value: Any) -> Any:
    """Return a JSON value as the declared type, with tuples for lists.

    A bound is declared by ``Annotated``; a number without one is from 0 to ``MOST``.

    Raises:
        ProtocolError: It has another type, or is out of its bounds.
    """
    if is_dataclass(hint):
        return built(hint, value)  # type: ignore[arg-type]  # a class, as all hints here
    if get_origin(hint) is tuple and type(value) is list:
        first, *others = get_args(hint)
        inside = [first] * len(value) if others == [...] else [first, *others]
        if len(inside) == len(value):
            return tuple(fitted(one, item) for one, item in zip(inside, value, strict=True))
    elif _is_of(hint, value):
        return float(value) if _bare(hint)[0] is float else value
    raise ProtocolError(f"it sent {shown(value)}, which is out of place")


def _is_of(hint: Any, value: Any) -> bool:
    """Return whether a value that is neither a list nor an object fits its declaration."""
    kind, bounds = _bare(hint)
    # Not isinstance: True is an int in Python.
    if type(value) is not kind and not (kind is float and type(value) is int):
        return False
    bounds = bounds or ((_AMOUNT,) if kind in (int, float) else ())
    return all(bound.allows(value) for bound in bounds)


def _bare(hint: Any) -> tuple[Any, tuple[Bound, ...]]:
    """Return a declared type and its bounds."""
    if get_origin(hint) is not Annotated:
        return hint, ()
    kind, *bounds = get_args(hint)
    return kind, tuple(bounds)


@cache
def _declared(kind: Any) -> tuple[dict[str, Any], frozenset[str]]:
    """Return the fields of a dataclass with their types, and which of them have no default."""
    needed = (f for f in fields(kind) if f.default is MISSING and f.default_factory is MISSING)
    return get_type_hints(kind, include_extras=True), frozenset(f.name for f in needed)
