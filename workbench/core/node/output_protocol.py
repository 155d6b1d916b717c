"""The messages between supervisor and node about a run's output files, and their keys."""

from __future__ import annotations

import binascii
import json
from base64 import b64decode
from collections.abc import Callable, Iterable, MutableMapping
from dataclasses import dataclass
from typing import Any

from workbench.core.node.staging import check_path
from workbench.core.node.transfer_protocol import read_line
from workbench.core.node.validation import take, take_count
from workbench.core.quote import one_line, shown
from workbench.core.run_id import is_run_id
from workbench.errors import InputError, ProtocolError

# To the node: a run and its folder; a piece of one of our files: run, name, offset, text; the key
# of a file: run, path, key; that a run has ended; a request to send everything now: a number; how
# many bytes were received; whether a file was kept: run, path, and why not.
RUN, ADD, KEY, OVER, FLUSH, TAKEN, KEPT = "run", "add", "key", "over", "flush", "taken", "kept"
# From the node: a request for a file's key: run, path; that a file is sent: run, path, bytes; why
# files cannot be sent; that all of a run, or of all runs, is sent; the beginning of a file: run,
# path; a part of it, in base64; its end, with its sha256.
CLAIM, SENT, TROUBLE, ENDED, FLUSHED = "claim", "sent", "trouble", "ended", "flushed"
FILE, PIECE, WHOLE = "file", "piece", "whole"

LOG, POINTS = "log.txt", "points.jsonl"
# A file is sent once it is unchanged for so long; one that always changes is sent periodically.
QUIET_SECONDS = 2.0
MOST_SECONDS = 60.0
FIRST_PAUSE_SECONDS = 1.0
LONGEST_PAUSE_SECONDS = 60.0
PIECE_NBYTES = 96 << 10
AHEAD_NBYTES = 4 << 20
# The largest number of files of a run whose names are stored here, and the size of all names.
MOST_FILES = 1_000_000
MOST_NAMES_NBYTES = 64 << 20


@dataclass(frozen=True)
class Claim:
    """The node requests the key of a run's file."""

    run: str
    path: str


@dataclass(frozen=True)
class Sent:
    """The node has sent a run's file to its destination."""

    run: str


@dataclass(frozen=True)
class Trouble:
    """Why files cannot be sent; empty once they can."""

    why: str


@dataclass(frozen=True)
class Ended:
    """All output of a run is sent."""

    run: str


@dataclass(frozen=True)
class Flushed:
    """All output that existed at the time of a request, by its number, is sent."""

    number: int


@dataclass(frozen=True)
class File:
    """A run's file begins."""

    run: str
    path: str


@dataclass(frozen=True)
class FilePiece:
    """A part of the file."""

    data: bytes


@dataclass(frozen=True)
class Whole:
    """The file is complete.

    Args:
        digest: Its sha256, in hex.
    """

    run: str
    path: str
    digest: str


NodeMessage = Claim | Sent | Trouble | Ended | Flushed | File | FilePiece | Whole


def read_message(text: str) -> NodeMessage | None:
    """Return the message in a line of a node's agent; None for a stray print.

    Raises:
        ProtocolError: It has the form of a message, but is invalid.
    """
    answer = read_line(text)
    if answer is None:
        return None
    kind, values = answer
    reader = _READERS.get(kind)
    if reader is None:
        raise ProtocolError(f"it sent {shown(kind)}, which is not a known message")
    return reader(values)


def _whole(values: list[Any]) -> Whole:
    run, path, digest = take(WHOLE, values, str, str, str)
    return Whole(*_run_and_path(WHOLE, [run, path]), digest)


def _run_and_path(kind: str, values: list[Any]) -> tuple[str, str]:
    run, path = take(kind, values, str, str)
    try:
        return _run(run), check_path(path)
    except InputError:
        raise ProtocolError(f"it named {shown(path)}, which leads out of a run's folder") from None


def _run(run: str) -> str:
    if not is_run_id(run):
        raise ProtocolError(f"it named {shown(run)}, which is not a run id")
    return run


def _bytes(piece: str) -> bytes:
    try:
        return b64decode(piece, validate=True)
    except (binascii.Error, ValueError):
        raise ProtocolError(f"it sent {shown(piece)}, which is not a piece of a file") from None


_READERS: dict[str, Callable[[list[Any]], NodeMessage]] = {
    CLAIM: lambda values: Claim(*_run_and_path(CLAIM, values)),
    SENT: lambda values: Sent(_run(take(SENT, values, str, str, int)[0])),
    TROUBLE: lambda values: Trouble(one_line(take(TROUBLE, values, str)[0])),
    ENDED: lambda values: Ended(_run(take(ENDED, values, str)[0])),
    FLUSHED: lambda values: Flushed(take_count(FLUSHED, values)),
    FILE: lambda values: File(*_run_and_path(FILE, values)),
    PIECE: lambda values: FilePiece(_bytes(take(PIECE, values, str)[0])),
    WHOLE: _whole,
}


@dataclass(frozen=True)
class FileState:
    """A file as last seen.

    Args:
        changed: Its time of change in nanoseconds.
    """

    nbytes: int
    changed: int


@dataclass(frozen=True)
class Unsent:
    """A file to be sent.

    Args:
        since: When it was first seen in its present state, in seconds of any clock.
        waiting: When it was first seen with unsent changes, by the same clock.
    """

    look: FileState
    since: float
    waiting: float


def seen(before: Unsent | None, look: FileState, now: float) -> Unsent:
    """Return the state of an unsent file after another look at it."""
    if before is None:
        return Unsent(look, now, now)
    return before if before.look == look else Unsent(look, now, before.waiting)


def is_due(file: Unsent, now: float) -> bool:
    """Return whether a file is to be sent now, although it may still change."""
    return now - file.since >= QUIET_SECONDS or now - file.waiting >= MOST_SECONDS


def pause_after(failures: int) -> float:
    """Return the seconds before the next attempt after so many failures."""
    return min(LONGEST_PAUSE_SECONDS, FIRST_PAUSE_SECONDS * 2.0 ** min(failures - 1, 10))


def key_of(path: str, node: str, owners: MutableMapping[str, str]) -> str:
    """Return the key of a node's file.

    The first node that writes a name has it without a prefix; other nodes have their address in
    front.

    Args:
        owners: The node of each path; it is extended.
    """
    while owners.setdefault(path, node) != node:
        path = f"{node}/{path}"
    return path


class LogText:
    """The output of a run's ranks as the lines of one file, each with its rank in front."""

    def __init__(self) -> None:
        self._begun: dict[int, list[str]] = {}

    def feed(self, pieces: Iterable[tuple[int, str]]) -> str:
        """Return the lines that pieces of output complete, in the order of their ends."""
        lines: list[str] = []
        for rank, text in pieces:
            begun = self._begun.setdefault(rank, [])
            first, *others = text.split("\n")
            begun.append(first)
            if others:
                *whole, rest = "".join(begun), *others
                lines += [f"{rank} | {line}\n" for line in whole]
                self._begun[rank] = [rest]
        return "".join(lines)

    def rest(self) -> str:
        """Return the unfinished lines with line ends."""
        begun, self._begun = self._begun, {}
        texts = {rank: "".join(parts) for rank, parts in sorted(begun.items())}
        return "".join(f"{rank} | {text}\n" for rank, text in texts.items() if text)


def point_line(rank: int, iteration: int, time: float, name: str, value: float) -> str:
    """Return one line of ``points.jsonl``; a value that is not a number is null."""
    number = value if abs(value) <= 1.7976931348623157e308 else None
    row = {"rank": rank, "iteration": iteration, "time": time, "name": name, "value": number}
    return json.dumps(row) + "\n"
