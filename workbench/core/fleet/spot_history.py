"""Read a recording of the spot nodes that a provider gave and took back, and when.

Two forms are known. One has a line for each node that came or went: milliseconds, ``add`` or
``remove``, its name. The other has a line for each change of their number: the time, in hours if
it is written with a decimal point and in seconds otherwise, and the number of nodes from then on.
Which nodes are taken is not in the second form, so it is drawn at random, with a fixed seed.
"""

from __future__ import annotations

import csv
import itertools
import math
from dataclasses import dataclass
from random import Random

from workbench.errors import InputError

FORMS = (
    "A recording has lines of `milliseconds,add,NODE` and `milliseconds,remove,NODE`, or of "
    "`seconds,COUNT`, or of `hours,COUNT` with a decimal point in the hours."
)
_HOUR = 3600.0


@dataclass(frozen=True)
class NodeStay:
    """How long one node was there.

    Args:
        begin: Seconds since the first node of the recording was there.
        end: When it was taken back, likewise; infinite if it outlasted the recording.
    """

    name: str
    begin: float
    end: float


@dataclass(frozen=True)
class SpotHistory:
    """One recording.

    Args:
        stays: All nodes that ever were there, by their beginning.
        seconds: Its length.
    """

    stays: tuple[NodeStay, ...]
    seconds: float

    @property
    def most(self) -> int:
        """The largest number of nodes that were there at once."""
        changes = [(one.begin, 1) for one in self.stays] + [(one.end, -1) for one in self.stays]
        now = most = 0
        for _, change in sorted(changes):  # at one moment nodes go first
            now += change
            most = max(most, now)
        return most

    @property
    def lost_per_hour(self) -> float:
        """How many of the nodes that are there are taken back per hour."""
        there = sum(min(one.end, self.seconds) - one.begin for one in self.stays)
        return sum(math.isfinite(one.end) for one in self.stays) / there * _HOUR

    @property
    def counts(self) -> list[tuple[float, int]]:
        """How many nodes are there from when on, in seconds of the recording."""
        changes = [(one.begin, 1) for one in self.stays] + [
            (one.end, -1) for one in self.stays if math.isfinite(one.end)
        ]
        sums = dict[float, int]()
        for moment, change in changes:
            sums[moment] = sums.get(moment, 0) + change
        there, found = 0, []
        for moment in sorted(sums):
            there += sums[moment]
            found.append((moment, there))
        return found

    def cut(self, begin: float, seconds: float) -> SpotHistory:
        """Return a part of it; nodes that are there at its beginning begin with it."""
        end = begin + seconds
        stays = (
            NodeStay(
                one.name,
                max(0.0, one.begin - begin),
                one.end - begin if one.end <= end else math.inf,
            )
            for one in self.stays
            if one.begin < end and one.end > begin
        )
        return SpotHistory(tuple(stays), min(end, self.seconds) - begin)


def schedule(
    history: SpotHistory, nodes: int, speed: float, begin: float
) -> list[tuple[float, int]]:
    """Return how many nodes a replay gives from when on, in epoch seconds.

    Args:
        nodes: The most that it gives; they represent the most that were there.
        speed: How many times as fast as it was.
        begin: When it begins.
    """
    most, found = history.most, list[tuple[float, int]]()
    for moment, count in history.counts:
        given = (count * nodes + most // 2) // most
        if not found or found[-1][1] != given:
            found.append((begin + moment / speed, given))
    return found


def read_history(text: str, name: str) -> SpotHistory:
    """Return the recording in a file's text.

    Args:
        name: Of the file, for errors.

    Raises:
        InputError: It is none, or no node was ever there.
    """
    rows = [row for row in csv.reader(text.splitlines()) if row]
    try:
        is_named = len(rows[0]) == 3
        unit = 0.001 if is_named else _HOUR if any("." in row[0] for row in rows) else 1.0
        rows = [[str(_number(row[0]) * unit), *row[1:]] for row in rows]
        changes, last = _named(rows) if is_named else _counted(rows), float(rows[-1][0])
    except (IndexError, KeyError, ValueError):
        raise InputError(f"{name} is no recording of spot nodes", FORMS) from None
    begins: dict[str, float] = {}
    stays: list[NodeStay] = []
    for moment, is_there, node in changes:
        if is_there:
            begins[node] = moment
        else:
            stays.append(NodeStay(node, begins.pop(node), moment))
    stays += [NodeStay(node, begin, math.inf) for node, begin in begins.items()]
    stays = [one for one in stays if one.end > one.begin]
    if not stays:
        raise InputError(f"No node was ever there in {name}", FORMS)
    first = min(one.begin for one in stays)
    moved = [NodeStay(one.name, one.begin - first, one.end - first) for one in stays]
    return SpotHistory(tuple(sorted(moved, key=lambda one: one.begin)), last - first)


Change = tuple[float, bool, str]


def _named(rows: list[list[str]]) -> list[Change]:
    """Return when each node came or went."""
    changes, there = [], set[str]()
    for moment, kind, node in rows:
        is_there = {"add": True, "remove": False}[kind]
        if is_there is not (node in there):  # what is said twice is said once
            changes.append((float(moment), is_there, node))
            there ^= {node}
    return _in_order(changes)


def _counted(rows: list[list[str]]) -> list[Change]:
    """Return nodes that come and go as their number says."""
    chance, changes, there, bought = Random(0), list[Change](), list[str](), 0
    for moment, number in rows:
        now = float(moment)
        while len(there) < int(number):
            bought += 1
            there.append(f"node{bought}")
            changes.append((now, True, there[-1]))
        while len(there) > int(number):
            changes.append((now, False, there.pop(chance.randrange(len(there)))))
    return _in_order(changes)


def _number(text: str) -> float:
    number = float(text)
    if not (math.isfinite(number) and number >= 0):
        raise ValueError(text)
    return number


def _in_order(changes: list[Change]) -> list[Change]:
    if any(one[0] > other[0] for one, other in itertools.pairwise(changes)):
        raise ValueError("it goes back in time")
    return changes
