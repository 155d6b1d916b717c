"""Make checked values of untrusted bytes: each message is declared once, and decoded by that.

A declaration is a ``BaseMessage`` (or any type that msgspec knows) whose fields have bounds by
``Annotated``. The sender is not trusted: what does not fit is refused in one clause.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from typing import Annotated, Any, TypeVar, overload

import msgspec

from workbench.core.quote import quote_value
from workbench.errors import ProtocolError

Kind = TypeVar("Kind")

MOST = 2**53
"""The largest number that is counted: each language, and a page, counts exactly up to it."""

LATEST = 1e11
"""Epoch seconds, some 3,000 years on: the largest that every clock can show."""

MOST_PID = 2**22  # <linux/threads.h>
PATH_NBYTES = 4_096  # <linux/limits.h>
NAME_CHARACTERS = 200
Name = Annotated[str, msgspec.Meta(max_length=NAME_CHARACTERS)]
"""Of a value, or of a variable."""

Count = Annotated[int, msgspec.Meta(ge=0, le=MOST)]
Positive = Annotated[int, msgspec.Meta(ge=1, le=MOST)]
Amount = Annotated[float, msgspec.Meta(ge=0, le=MOST)]
"""Seconds, epochs and other quantities that are finite."""
Time = Annotated[float, msgspec.Meta(ge=0, le=LATEST)]
"""Epoch seconds."""
Pid = Annotated[int, msgspec.Meta(ge=1, le=MOST_PID)]
Path = Annotated[str, msgspec.Meta(max_length=PATH_NBYTES)]

_PATH = re.compile(r"(?P<reason>.*) - at `(?P<path>[^`]*)`(?: in `[^`]*`)?", re.DOTALL)
_STEP = re.compile(r"\.(?P<name>[^.\[]+)|\[(?P<place>\d+)\]")
_EXPECTED = re.compile(r"Expected (?P<what>.*?)(?:, got .*)?", re.DOTALL)
_FIELD = re.compile(r"Object (?P<what>missing required|contains unknown) field `(?P<name>.*)`")
_TYPES = {
    "array": "a list",
    "bool": "true or false",
    "bytes": "bytes",
    "float": "a number",
    "int": "an integer",
    "null": "nothing",
    "object": "an object",
    "str": "text",
}
_NOTHING = object()
# msgspec 0.22 notes on each type what it has learnt of it, without a lock.
_learning = threading.Lock()

Hook = Callable[[type[Any], Any], Any]
"""Makes a value of a type that msgspec does not know; ValueError if it cannot."""


class BaseMessage(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The base of what is sent: values that do not change, with the declared fields alone.

    Type checkers want ``frozen=True`` from each subclass too.
    """


@overload
def decode(kind: type[Kind], data: bytes | str, *, hook: Hook | None = None) -> Kind: ...


@overload
def decode(kind: Any, data: bytes | str, *, hook: Hook | None = None) -> Any: ...


def decode(kind: Any, data: bytes | str, *, hook: Hook | None = None) -> Any:
    """Return the value that is encoded in JSON.

    Args:
        kind: Its declaration: a type, or a union of messages with tags.
        hook: For parts of types that msgspec does not know.

    Raises:
        ProtocolError: It is not JSON, or does not fit; a clause about "it".
    """
    try:
        return _json_decoder(kind, hook).decode(data)
    except (ValueError, RecursionError) as error:
        try:
            body = msgspec.json.decode(data)
        except (ValueError, RecursionError):
            raise ProtocolError(_describe_format(data, "JSON")) from None
        raise ProtocolError(_describe(error, body)) from None


def unpack(kind: Any, data: bytes) -> Any:
    """Return the value that is encoded in MessagePack.

    Args:
        kind: Its declaration: a type, or a union of messages with tags.

    Raises:
        ProtocolError: It is not MessagePack, or does not fit; a clause about "it".
    """
    try:
        return _msgpack_decoder(kind).decode(data)
    except (ValueError, RecursionError) as error:
        try:
            body = msgspec.msgpack.decode(data)
        except (ValueError, RecursionError, TypeError):  # TypeError: a key that has no hash
            raise ProtocolError(_describe_format(data, "MessagePack")) from None
        raise ProtocolError(_describe(error, body)) from None


@overload
def convert(kind: type[Kind], body: object) -> Kind: ...


@overload
def convert(kind: Any, body: object) -> Any: ...


def convert(kind: Any, body: object) -> Any:
    """Return the value of objects that were decoded already: dicts, lists, texts and numbers.

    Args:
        kind: Its declaration: a type, or a union of messages with tags.

    Raises:
        ProtocolError: They do not fit; a clause about "it".
    """
    learn_type(kind)
    try:
        return msgspec.convert(body, kind)
    except (ValueError, RecursionError) as error:
        raise ProtocolError(_describe(error, body)) from None


@cache
def learn_type(kind: Any) -> None:
    """Have msgspec learn a type, in one thread: another one crashes on a type half learnt."""
    with _learning, suppress(ValueError):
        msgspec.convert(None, kind)


@cache
def _json_decoder(kind: Any, hook: Hook | None) -> msgspec.json.Decoder[Any]:
    with _learning:
        return msgspec.json.Decoder(kind, dec_hook=hook)


@cache
def _msgpack_decoder(kind: Any) -> msgspec.msgpack.Decoder[Any]:
    with _learning:
        return msgspec.msgpack.Decoder(kind)


def _describe_format(data: bytes | str, wanted: str) -> str:
    return f"it is {quote_value(data[:200])}; expected {wanted}"


def _describe(error: Exception, body: Any) -> str:
    """Return what is wrong with ``body``, by msgspec's error."""
    found = _PATH.fullmatch(str(error))
    reason, path = (found["reason"], found["path"].lstrip("$")) if found else (str(error), "")
    subject = f"its {path.lstrip('.')}" if path else "it"
    if field := _FIELD.fullmatch(reason):
        verb = "lacks" if field["what"].startswith("missing") else "has an unknown field"
        return f"{subject} {verb} {quote_value(field['name'])}"
    value = _find(body, path)
    what = subject if value is _NOTHING else f"{subject} is {quote_value(value)}"
    if expected := _EXPECTED.fullmatch(reason):
        return f"{what}; expected {_name_types(expected['what'])}"
    if reason.startswith("Invalid "):  # a tag, or a value of an enumeration
        return f"{what}, which is not a known value"
    return f"{what}; {reason[:1].lower()}{reason[1:]}"


def _find(body: Any, path: str) -> Any:
    """Return the value at a path of msgspec's."""
    at = 0
    while step := _STEP.match(path, at):
        name, place = step["name"], step["place"]
        try:
            body = body[int(place)] if name is None else body[name]
        except (IndexError, KeyError, TypeError):
            return _NOTHING
        at = step.end()
    return body if at == len(path) else _NOTHING


def _name_types(text: str) -> str:
    """Return a description of msgspec's with the types in words."""

    def name(match: re.Match[str]) -> str:
        return " or ".join(_TYPES.get(one, one) for one in match[1].split(" | "))

    return re.sub(r"`([^`]*)`", name, text)
