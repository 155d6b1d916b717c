"""Say what supervisor and node tell each other about a run's output, and where a file goes."""

from __future__ import annotations

import json
from collections.abc import Iterable, MutableMapping
from dataclasses import dataclass

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


@dataclass(frozen=True)
class Look:
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

    look: Look
    since: float
    waiting: float


def seen(before: Unsent | None, look: Look, now: float) -> Unsent:
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
    return path if owners.setdefault(path, node) == node else f"{node}/{path}"


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
