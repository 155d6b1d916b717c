"""The messages between a rank and the supervisor, and their form on the wire.

A rank sends batches, numbered from 1 for each run, and keeps them until they are acknowledged;
the supervisor acknowledges a batch once the store has it. A lost message is sent again, a
repeated one is ignored, so the store holds every point exactly once.
"""

from __future__ import annotations

import json
import sys
from array import array
from base64 import b64decode, b64encode
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple


class Sample(NamedTuple):
    """One value that a rank reported.

    ``time`` is in epoch seconds by the rank's own clock.
    """

    name: str
    iteration: int
    time: float
    value: float


class Chunk(NamedTuple):
    """Text that a rank wrote to ``stdout`` or ``stderr``."""

    stream: str
    time: float
    text: str


@dataclass(frozen=True)
class Progress:
    """How far a rank is. Totals are 0 when unknown."""

    iteration: int = 0
    iterations_total: int = 0
    epoch: float = 0.0
    epochs_total: float = 0.0


@dataclass(frozen=True)
class Ending:
    """How a rank left a run.

    Args:
        state: ``finished``, ``stopped`` or ``failed``.
        error: The traceback's last line; empty when the rank did not fail.
        traceback: The rank's own traceback.
        exited: Whether the rank left by ``sys.exit``.
        secondary: Whether the error is only the echo of another rank's failure.
    """

    state: str
    iteration: int = 0
    error: str = ""
    traceback: str = ""
    exited: bool = False
    secondary: bool = False


@dataclass(frozen=True)
class Batch:
    """What a rank gathered since its last batch."""

    run: str
    rank: int
    sequence: int
    samples: tuple[Sample, ...] = ()
    chunks: tuple[Chunk, ...] = ()
    progress: Progress | None = None
    ending: Ending | None = None


@dataclass(frozen=True)
class Pulse:
    """A sign of life during a run; not kept.

    Args:
        boundary: Iteration boundaries passed since the run began.
        rate: Boundaries a second of late.
        call: The MPI call that the rank is inside, or empty.
        seconds: How long it has been inside.
        where: ``file:line`` of the user's innermost frame.
    """

    run: str
    rank: int
    boundary: int
    rate: float = 0.0
    call: str = ""
    seconds: float = 0.0
    where: str = ""


@dataclass(frozen=True)
class Hello:
    """The first message of a rank on a fresh connection."""

    generation: int
    rank: int


@dataclass(frozen=True)
class Acknowledge:
    """All batches of ``run`` up to ``sequence`` are kept; send what follows, from there if asked.

    ``resend`` is true when the supervisor misses what comes after ``sequence``.
    """

    run: str
    sequence: int
    resend: bool = False


@dataclass(frozen=True)
class AskPulse:
    """Send a pulse now."""

    run: str


@dataclass(frozen=True)
class StopAt:
    """Leave the run at iteration boundary number ``boundary``."""

    run: str
    boundary: int


@dataclass(frozen=True)
class Interrupt:
    """Leave the run now: revoke its communicators and raise KeyboardInterrupt."""

    run: str


Message = Batch | Pulse | Hello
Command = Acknowledge | AskPulse | StopAt | Interrupt

_KINDS = {
    cls.__name__: cls for cls in (Batch, Pulse, Hello, Acknowledge, AskPulse, StopAt, Interrupt)
}


def encode(message: Message | Command) -> bytes:
    """Return ``message`` as one line of JSON, without a newline.

    What is no Unicode (a file name in another encoding, say) becomes ``?``; no store takes it.
    """
    if isinstance(message, Batch):
        body: dict[str, Any] = {
            "run": message.run,
            "rank": message.rank,
            "sequence": message.sequence,
            "samples": _packed(message.samples),
            "chunks": message.chunks,
            "progress": message.progress and asdict(message.progress),
            "ending": message.ending and asdict(message.ending),
        }
    else:
        body = asdict(message)
    line = json.dumps([type(message).__name__, body], separators=(",", ":"), ensure_ascii=False)
    return line.encode(errors="replace")


def decode(line: bytes) -> Message | Command:
    """Return the message that ``line`` holds.

    Raises:
        ValueError: The line is cut short or is not one of ours.
    """
    try:
        kind, body = json.loads(line)
        if kind != "Batch":
            return _KINDS[kind](**body)
        return Batch(
            run=body["run"],
            rank=body["rank"],
            sequence=body["sequence"],
            samples=tuple(_unpacked(body["samples"])),
            chunks=tuple(Chunk(*row) for row in body["chunks"]),
            progress=Progress(**body["progress"]) if body["progress"] else None,
            ending=Ending(**body["ending"]) if body["ending"] else None,
        )
    except (AttributeError, IndexError, KeyError, TypeError, ValueError) as error:
        raise ValueError(f"not a workbench message: {line[:80]!r}") from error


def _packed(samples: Iterable[Sample]) -> list[Any]:
    """Return the names, then which one, iteration, time and value of each as machine numbers.

    In base64, in the order of the samples; text would cost the rank several times as much.
    """
    rows = tuple(samples)
    places = {name: place for place, name in enumerate(dict.fromkeys(row[0] for row in rows))}
    return [
        list(places),
        _text(array("q", [places[row[0]] for row in rows])),
        _text(array("q", [row[1] for row in rows])),
        _text(array("d", [row[2] for row in rows])),
        _text(array("d", [row[3] for row in rows])),
    ]


def _unpacked(columns: list[Any]) -> Iterable[Sample]:
    names, which, iterations, times, values = columns
    rows = zip(
        _numbers("q", which),
        _numbers("q", iterations),
        _numbers("d", times),
        _numbers("d", values),
        strict=True,
    )
    for place, iteration, time, value in rows:
        yield Sample(names[place], iteration, time, value)


def _text(numbers: array[Any]) -> str:
    if sys.byteorder == "big":
        numbers.byteswap()
    return b64encode(numbers.tobytes()).decode("ascii")


def _numbers(kind: str, text: str) -> array[Any]:
    numbers: array[Any] = array(kind)
    numbers.frombytes(b64decode(text))
    if sys.byteorder == "big":
        numbers.byteswap()
    return numbers
