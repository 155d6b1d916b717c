"""The messages between supervisor and node about a run's output files, and where files go."""

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
from workbench.errors import InputError, MachineError

# To the node: a run and its folder; a piece of a file of ours: run, name, offset, text; the key of
# a file: run, path, key; that a run is over; that all is to be sent now: a number; how many bytes
# were taken in; whether a file was kept: run, path, and why not.
RUN, ADD, KEY, OVER, FLUSH, TAKEN, KEPT = "run", "add", "key", "over", "flush", "taken", "kept"
# From the node: a file wants a key: run, path; one is sent: run, path, bytes; what keeps files
# from being sent; nothing of a run, or of all, is left to send; a file that comes: run, path;
# some of it, in base64; its end, with its sha256.
CLAIM, SENT, TROUBLE, ENDED, FLUSHED = "claim", "sent", "trouble", "ended", "flushed"
FILE, PIECE, WHOLE = "file", "piece", "whole"

LOG, POINTS = "log.txt", "points.jsonl"
# A file is sent when it has not changed for so long; one that changes all the time, now and then.
QUIET_SECONDS = 2.0
MOST_SECONDS = 60.0
FIRST_PAUSE_SECONDS = 1.0
LONGEST_PAUSE_SECONDS = 60.0
PIECE_NBYTES = 96 << 10
AHEAD_NBYTES = 4 << 20
# So many files of a run have their names kept here.
MOST_FILES = 1_000_000


@dataclass(frozen=True)
class Claim:
    """A file of a run wants a key."""

    run: str
    path: str


@dataclass(frozen=True)
class Sent:
    """A file of a run has been sent to where it is kept."""

    run: str


@dataclass(frozen=True)
class Trouble:
    """What keeps files from being sent; empty when nothing does any longer."""

    why: str


@dataclass(frozen=True)
class Ended:
    """Nothing of a run is left to send."""

    run: str


@dataclass(frozen=True)
class Flushed:
    """All that was there at the time of a request, by its number, has been sent."""

    number: int


@dataclass(frozen=True)
class File:
    """A file of a run comes."""

    run: str
    path: str


@dataclass(frozen=True)
class FilePiece:
    """Some of it."""

    data: bytes


@dataclass(frozen=True)
class Whole:
    """All of it has come.

    Args:
        digest: Its sha256, in hex.
    """

    run: str
    path: str
    digest: str


Said = Claim | Sent | Trouble | Ended | Flushed | File | FilePiece | Whole


def read_said(text: str) -> Said | None:
    """Return what the agent of a node said in a line; None for a stray print.

    Raises:
        MachineError: It has the form of an answer, and is none.
    """
    answer = read_line(text)
    if answer is None:
        return None
    kind, values = answer
    reader = _READERS.get(kind)
    if reader is None:
        raise MachineError(f"it said {shown(kind)}, which is nothing that it may say")
    return reader(values)


def _whole(values: list[Any]) -> Whole:
    run, path, digest = take(WHOLE, values, str, str, str)
    return Whole(*_run_and_path(WHOLE, [run, path]), digest)


def _run_and_path(kind: str, values: list[Any]) -> tuple[str, str]:
    run, path = take(kind, values, str, str)
    try:
        return _run(run), check_path(path)
    except InputError:
        raise MachineError(f"it named {shown(path)}, which leads out of a run's folder") from None


def _run(run: str) -> str:
    if not is_run_id(run):
        raise MachineError(f"it named {shown(run)}, which is no run")
    return run


def _bytes(piece: str) -> bytes:
    try:
        return b64decode(piece, validate=True)
    except (binascii.Error, ValueError):
        raise MachineError(f"it sent {shown(piece)}, which is no piece of a file") from None


_READERS: dict[str, Callable[[list[Any]], Said]] = {
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
    """A file as it was seen.

    Args:
        changed: Its time of change in nanoseconds.
    """

    nbytes: int
    changed: int


@dataclass(frozen=True)
class Unsent:
    """A file that is to be sent.

    Args:
        since: Seconds, by any clock, at which it was first seen as it is.
        waiting: Likewise, at which it was first seen with something that is not sent.
    """

    look: FileState
    since: float
    waiting: float


def seen(before: Unsent | None, look: FileState, now: float) -> Unsent:
    """Return what is known of a file that is not sent, now that it was looked at."""
    if before is None:
        return Unsent(look, now, now)
    return before if before.look == look else Unsent(look, now, before.waiting)


def is_due(file: Unsent, now: float) -> bool:
    """Tell whether a file that goes on changing, perhaps, is to be sent."""
    return now - file.since >= QUIET_SECONDS or now - file.waiting >= MOST_SECONDS


def pause_after(failures: int) -> float:
    """Return the seconds until what failed so often is tried again."""
    return min(LONGEST_PAUSE_SECONDS, FIRST_PAUSE_SECONDS * 2.0 ** min(failures - 1, 10))


def key_of(path: str, node: str, owners: MutableMapping[str, str]) -> str:
    """Return under which key a node's file goes.

    Who writes a name first has it plain; of all other nodes the address stands before it.

    Args:
        owners: Which node has each path; it is added to.
    """
    while owners.setdefault(path, node) != node:
        path = f"{node}/{path}"
    return path


class LogText:
    """What the ranks of a run print, as the lines of one file, each with its rank before it."""

    def __init__(self) -> None:
        self._begun: dict[int, str] = {}

    def feed(self, pieces: Iterable[tuple[int, str]]) -> str:
        """Return the lines that pieces of output complete, in the order of their ends."""
        lines: list[str] = []
        for rank, text in pieces:
            *whole, self._begun[rank] = (self._begun.get(rank, "") + text).split("\n")
            lines += [f"{rank} | {line}\n" for line in whole]
        return "".join(lines)

    def rest(self) -> str:
        """Return the lines that have no end, and end them."""
        begun, self._begun = self._begun, {}
        return "".join(f"{rank} | {text}\n" for rank, text in sorted(begun.items()) if text)


def point_line(rank: int, iteration: int, time: float, name: str, value: float) -> str:
    """Return one line of ``points.jsonl``; a value that is no number is null."""
    number = value if abs(value) <= 1.7976931348623157e308 else None
    row = {"rank": rank, "iteration": iteration, "time": time, "name": name, "value": number}
    return json.dumps(row) + "\n"
