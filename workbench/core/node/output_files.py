"""Decide when a run's output files are sent, what they are called, and what the log says."""

from __future__ import annotations

import json
from collections.abc import Iterable, MutableMapping
from dataclasses import dataclass

LOG, POINTS = "log.txt", "points.jsonl"
# A file is sent once it is unchanged for so long; one that always changes is sent periodically.
QUIET_SECONDS = 2.0
MOST_SECONDS = 60.0
FIRST_PAUSE_SECONDS = 1.0
LONGEST_PAUSE_SECONDS = 60.0
# The largest number of files of a run whose names are stored here, and the size of all names.
MOST_FILES = 1_000_000
MOST_NAMES_NBYTES = 64 << 20


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


def update_unsent(before: Unsent | None, look: FileState, now: float) -> Unsent:
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
