"""Validate the values in a node's answers: a node is not trusted."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import MISSING, fields, is_dataclass
from functools import cache
from typing import Any, TypeVar, get_args, get_origin, get_type_hints

from workbench.core.quote import one_line, shown
from workbench.errors import ProtocolError

MOST = 2**53  # bytes, files: no node has more, and each language counts exactly up to it

Kind = TypeVar("Kind")


def take(kind: str, values: Sequence[Any], *types: type) -> list[Any]:
    """Return the values of a message if their number and types are as given.

    Raises:
        ProtocolError: They are not; the error names the value.
    """
    message = [kind, *values]
    if len(values) != len(types):
        raise ProtocolError(f"it sent {shown(message)}, with a wrong number of values")
    for value, wanted in zip(values, types, strict=True):
        if type(value) is not wanted:  # not isinstance: True is an int in Python
            raise ProtocolError(f"it sent {shown(message)}, where {shown(value)} is out of place")
    return [*values]


def take_count(kind: str, values: Sequence[Any]) -> int:
    """Return the only value of a message, a count of things or bytes.

    Raises:
        ProtocolError: It is not a count.
    """
    (number,) = take(kind, values, int)
    if not 0 <= number <= MOST:
        raise ProtocolError(f"it sent {shown([kind, number])}, which is not a count")
    return int(number)


def take_numbers(kind: str, values: Sequence[Any], most: int) -> list[int]:
    """Return the only value of a message, a list of different numbers from 0 to below ``most``.

    Raises:
        ProtocolError: It is not such a list.
    """
    (numbers,) = take(kind, values, list)
    for number in numbers:
        if type(number) is not int or not 0 <= number < most:
            raise ProtocolError(
                f"it sent {shown([kind, numbers])}, where {shown(number)} is invalid"
            )
    return [*dict.fromkeys(numbers)]


def take_sentence(kind: str, values: Sequence[Any]) -> str:
    """Return the only value of a message, a sentence, on one line.

    Raises:
        ProtocolError: It is not a sentence.
    """
    return one_line(take(kind, values, str)[0])


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

    Raises:
        ProtocolError: It has another type, or is not a finite number.
    """
    if is_dataclass(hint):
        return built(hint, value)  # type: ignore[arg-type]  # a class, as all hints here
    if get_origin(hint) is tuple and type(value) is list:
        first, *others = get_args(hint)
        inside = [first] * len(value) if others == [...] else [first, *others]
        if len(inside) == len(value):
            return tuple(fitted(one, item) for one, item in zip(inside, value, strict=True))
    elif hint is float and type(value) in (int, float) and _is_finite(value):
        return float(value)
    elif type(value) is hint and (hint is not int or abs(value) < 2**63):
        return value
    raise ProtocolError(f"it sent {shown(value)}, which is out of place")


def _is_finite(number: float) -> bool:
    return abs(number) < 1e300 and math.isfinite(number)


@cache
def _declared(kind: Any) -> tuple[dict[str, Any], frozenset[str]]:
    """Return the fields of a dataclass with their types, and which of them have no default."""
    needed = (f for f in fields(kind) if f.default is MISSING and f.default_factory is MISSING)
    return get_type_hints(kind), frozenset(f.name for f in needed)
