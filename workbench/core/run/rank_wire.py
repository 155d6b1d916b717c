"""Encode and decode the messages between a rank and the supervisor.

A rank is not trusted: invalid messages, and values out of bounds, raise an error.
"""

from __future__ import annotations

import json
import math
import sys
from array import array
from base64 import b64decode, b64encode
from collections.abc import Callable, Mapping
from dataclasses import asdict
from typing import Any

from workbench.core.run.cell_names import CellEffects, Deed
from workbench.core.run.display import Display, check_display
from workbench.core.run.rank_protocol import (
    ERROR_CHARACTERS,
    MOST,
    NAME_CHARACTERS,
    TRACEBACK_CHARACTERS,
    Acknowledge,
    AskPulse,
    Batch,
    Chunk,
    Command,
    ContinueAs,
    Ending,
    Hello,
    Interrupt,
    Message,
    Progress,
    Pulse,
    StopAt,
)
from workbench.core.run.samples import Samples
from workbench.core.run_id import is_execution_id

LARGEST_MESSAGE = 32 * 2**20  # bytes
_LATEST = 1e11  # epoch seconds, some 3,000 years on
_PLACE_CHARACTERS = 1_000
_STREAM_CHARACTERS = 40
_ENDINGS = frozenset({"finished", "stopped", "failed"})

Check = Callable[[Any], Any]


def encode(message: Message | Command) -> bytes:
    """Return ``message`` as one line of JSON, without a newline.

    Invalid Unicode (a file name in another encoding, say) becomes ``?``; no store accepts it.
    """
    if isinstance(message, Batch):
        body: dict[str, Any] = {
            "run": message.run,
            "rank": message.rank,
            "sequence": message.sequence,
            "samples": _packed(message.columns),
            "chunks": message.chunks,
            "progress": message.progress and asdict(message.progress),
            "ending": message.ending and asdict(message.ending),
        }
    else:
        body = asdict(message)
    line = json.dumps([type(message).__name__, body], separators=(",", ":"), ensure_ascii=False)
    return line.encode(errors="replace")


def decode(line: bytes) -> Message | Command:
    """Return the message in ``line``.

    Raises:
        ValueError: The line is truncated, is not a message of ours, or has an invalid value.
    """
    try:
        if len(line) > LARGEST_MESSAGE:
            raise ValueError(f"{len(line):,} bytes are more than any message has")
        kind, body = json.loads(line)
        made: Message | Command = _MADE[kind](body)
    except (AttributeError, IndexError, KeyError, RecursionError, TypeError, ValueError) as error:
        raise ValueError(f"not a workbench message: {line[:80]!r} ({_reason(error)})") from error
    return made


def _reason(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"[:200]


# -- one value


def _whole(value: Any) -> int:
    if type(value) is not int or not 0 <= value <= MOST:
        raise ValueError(f"{value!r:.60} is no number from 0 to 2**53")
    return value


def _positive(value: Any) -> int:
    if _whole(value) == 0:
        raise ValueError("counting begins at 1")
    return int(value)


def _amount(value: Any) -> float:
    """Return an amount such as seconds or epochs."""
    if type(value) not in (int, float) or not 0 <= value <= MOST:
        raise ValueError(f"{value!r:.60} is no finite number above 0")
    return float(value)


def _moment(value: Any) -> float:
    if _amount(value) > _LATEST:
        raise ValueError(f"{value!r:.60} is no time in epoch seconds")
    return float(value)


def _flag(value: Any) -> bool:
    if type(value) is not bool:
        raise ValueError(f"{value!r:.60} is neither true nor false")
    return value


def _text_of(most: int = LARGEST_MESSAGE) -> Check:
    def check(value: Any) -> str:
        if type(value) is not str or len(value) > most:
            raise ValueError(f"{value!r:.60} is no text of at most {most:,} characters")
        if not value.isascii():
            value.encode()  # half a surrogate pair cannot be stored
        return value

    return check


def _run(value: Any) -> str:
    if type(value) is not str or not is_execution_id(value):
        raise ValueError(f"{value!r:.60} is no run")
    return value


def _state(value: Any) -> str:
    if value not in _ENDINGS:
        raise ValueError(f"{value!r:.60} is no way to leave a run")
    return str(value)


def _rows(most: Check) -> Check:
    def check(value: Any) -> tuple[Any, ...]:
        if type(value) is not list:
            raise ValueError(f"{value!r:.60} is no list")
        return tuple(most(row) for row in value)

    return check


def _maybe(check: Check) -> Check:
    return lambda value: None if value is None else check(value)


# -- composed values


def _made(cls: Callable[..., Any], checks: Mapping[str, Check]) -> Check:
    """Return a check that makes ``cls`` from an object with exactly these fields."""

    def make(body: Any) -> Any:
        if type(body) is not dict or body.keys() != checks.keys():
            raise ValueError(f"{body!r:.60} has other fields")
        return cls(**{name: check(body[name]) for name, check in checks.items()})

    return make


def _chunk(row: Any) -> Chunk | Display:
    if len(row) != len(Chunk._fields):
        return check_display(Display(*row))
    stream, time, text = row
    return Chunk(_STREAM(stream), _moment(time), _TEXT(text))


_TEXT = _text_of()
_NAME = _text_of(NAME_CHARACTERS)
_STREAM = _text_of(_STREAM_CHARACTERS)
_PROGRESS = _made(
    Progress,
    {
        "iteration": _whole,
        "iterations_total": _whole,
        "epoch": _amount,
        "epochs_total": _amount,
    },
)
_NAMES = _rows(_NAME)
_EFFECTS = _made(
    CellEffects,
    {
        "bound": _NAMES,
        "fixed": _NAMES,
        "modules": _NAMES,
        "deleted": _NAMES,
        "read": _NAMES,
        "deeds": _rows(Deed),
    },
)
_ENDING = _made(
    Ending,
    {
        "state": _state,
        "iteration": _whole,
        "error": _text_of(ERROR_CHARACTERS),
        "traceback": _text_of(TRACEBACK_CHARACTERS),
        "exited": _flag,
        "secondary": _flag,
        "gone": _flag,
        "whole": _text_of(TRACEBACK_CHARACTERS),
        "spoiled": _text_of(ERROR_CHARACTERS),
        "effects": _maybe(_EFFECTS),
    },
)


# -- samples


def _packed(samples: Samples) -> list[Any]:
    """Return the names, then each sample's name index, iteration, time and value as numbers.

    In base64, in the order of the samples; text would cost the rank several times as much.
    """
    return [
        list(samples.names),
        _text(array("q", samples.which)),
        _text(array("q", samples.iterations)),
        _text(array("d", samples.times)),
        _text(array("d", samples.values)),
    ]


def _unpacked(columns: Any) -> Samples:
    found, *packed = columns
    names = _rows(_NAME)(found)
    which, iterations, times, values = (
        _numbers(kind, text) for kind, text in zip("qqdd", packed, strict=True)
    )
    if not len(which) == len(iterations) == len(times) == len(values):
        raise ValueError("the columns of the samples differ in length")
    if which:
        _within(which, len(names) - 1)
        _within(iterations, MOST)
        _within(times, _LATEST)
    return Samples(names, which, iterations, times, values)


def _within(numbers: array[Any], most: float) -> None:
    if math.isnan(sum(numbers)) or min(numbers) < 0 or max(numbers) > most:
        raise ValueError(f"a sample has a number that is not between 0 and {most:g}")


def _text(numbers: array[Any]) -> str:
    if sys.byteorder == "big":
        numbers.byteswap()
    return b64encode(numbers.tobytes()).decode("ascii")


def _numbers(kind: str, text: Any) -> array[Any]:
    numbers: array[Any] = array(kind)
    numbers.frombytes(b64decode(_TEXT(text), validate=True))
    if sys.byteorder == "big":
        numbers.byteswap()
    return numbers


_MADE: dict[str, Check] = {
    "Batch": _made(
        Batch,
        {
            "run": _run,
            "rank": _whole,
            "sequence": _positive,
            "samples": _unpacked,
            "chunks": _rows(_chunk),
            "progress": _maybe(_PROGRESS),
            "ending": _maybe(_ENDING),
        },
    ),
    "Pulse": _made(
        Pulse,
        {
            "run": _run,
            "rank": _whole,
            "boundary": _whole,
            "rate": _amount,
            "call": _text_of(_PLACE_CHARACTERS),
            "seconds": _amount,
            "line": _whole,
            "doing": _text_of(_PLACE_CHARACTERS),
            "still": _amount,
            "traffic": _amount,
            "left": _flag,
            "idle": _flag,
        },
    ),
    "Hello": _made(Hello, {"generation": _whole, "rank": _whole}),
    "Acknowledge": _made(
        Acknowledge, {"run": _run, "sequence": _whole, "resend": _flag, "watched": _flag}
    ),
    "AskPulse": _made(AskPulse, {"run": _run}),
    "StopAt": _made(StopAt, {"run": _run, "boundary": _whole, "epoch": _flag}),
    "Interrupt": _made(Interrupt, {"run": _run}),
    "ContinueAs": _made(ContinueAs, {"run": _run, "into": _run}),
}
