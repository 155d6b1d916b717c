"""Store the displays of ranks in the order of the output, the newest for each display id."""

from __future__ import annotations

import sqlite3
from collections.abc import Collection, Mapping
from typing import NamedTuple

from workbench.core.run.display import (
    CLEAR,
    RUN_CHARACTERS,
    RUN_DISPLAYS,
    UPDATE,
    Display,
)
from workbench.store.database import Database
from workbench.store.rows import json_of, of_json, readable

_SCRAP = 2  # ranks limit this themselves, but their messages are not trusted


class DisplayContent(NamedTuple):
    """The content of a display: data by MIME type, images in base64, and the sizes of images."""

    data: Mapping[str, str]
    metadata: Mapping[str, Mapping[str, int]]


class Displays:
    """What ranks displayed.

    The place of a display is the sequence number of its row of the output.
    """

    def __init__(self, database: Database) -> None:
        self._database = database

    def find(self, run: str, place: int) -> DisplayContent | None:
        """Return the display at ``place``, or None if it was cleared."""
        rows = self._database.all(
            "SELECT data, metadata FROM displays "
            "WHERE run = (SELECT number FROM runs WHERE id = ?) AND sequence = ? AND place > 0",
            (run, place),
        )
        return next(
            readable(self._database.path, f"what run {run!r} displayed", rows, _read_display), None
        )

    def newest(
        self, run: str, characters: int, without: Collection[int] = ()
    ) -> dict[int, DisplayContent]:
        """Return the newest displays, together at most ``characters`` long.

        Args:
            without: Ranks whose displays are left out.
        """
        rows = self._database.all(
            "SELECT sequence, size, rank FROM displays "
            "WHERE run = (SELECT number FROM runs WHERE id = ?) AND place > 0 "
            "ORDER BY sequence DESC",
            (run,),
        )
        found = dict[int, DisplayContent]()
        for place, size, rank in rows:
            if rank in without:
                continue
            characters -= size
            if characters < 0:
                break
            if shown := self.find(run, place):
                found[place] = shown
        return found

    def count(self, run: str) -> dict[int, int]:
        """Return the number of displays of each rank."""
        rows = self._database.all(
            "SELECT rank, count(*) FROM displays "
            "WHERE run = (SELECT number FROM runs WHERE id = ?) AND place > 0 GROUP BY rank",
            (run,),
        )
        return dict(rows)


def _read_display(row: tuple[str, str]) -> DisplayContent:
    data, metadata = row
    return DisplayContent(
        of_json(dict[str, str], data), of_json(dict[str, dict[str, int]], metadata)
    )


def add_display(
    connection: sqlite3.Connection, run: int, rank: int, sequence: int, display: Display
) -> str | None:
    """Store a display as output row ``sequence``; return the text of that row.

    Output rows that are no longer needed are deleted; None if this row is one of them.
    """
    if display.action == CLEAR:
        return _clear(connection, run, rank, sequence)
    if display.action == UPDATE:
        return _update(connection, run, rank, sequence, display)
    data, metadata = json_of(display.data), json_of(display.metadata)
    if _has_room(connection, run, rank, display.size):
        connection.execute(
            "INSERT INTO displays VALUES (?, ?, ?, ?, 0, ?, ?, ?)",
            (run, sequence, rank, display.place, display.size, data, metadata),
        )
    return display.words


def _update(
    connection: sqlite3.Connection, run: int, rank: int, sequence: int, display: Display
) -> str | None:
    found = connection.execute(
        "SELECT sequence, updated FROM displays WHERE run = ? AND rank = ? AND place = ?",
        (run, rank, display.place),
    ).fetchone()
    if found is None or not display.place:
        return None
    place, updated = found
    data, metadata = json_of(display.data), json_of(display.metadata)
    connection.execute(
        "UPDATE displays SET updated = ?, size = ?, data = ?, metadata = ? "
        "WHERE run = ? AND sequence = ?",
        (sequence, display.size, data, metadata, run, place),
    )
    connection.execute(
        "UPDATE output SET text = ? WHERE run = ? AND sequence = ?", (display.words, run, place)
    )
    connection.execute("DELETE FROM output WHERE run = ? AND sequence = ?", (run, updated))
    return str(place)


def _clear(connection: sqlite3.Connection, run: int, rank: int, sequence: int) -> str:
    """Delete the displays of the rank; of its clearings, only the newest is kept."""
    for column in ("sequence", "updated"):
        connection.execute(
            "DELETE FROM output WHERE run = ? AND sequence IN "
            f"(SELECT {column} FROM displays WHERE run = ? AND rank = ?)",
            (run, run, rank),
        )
    connection.execute("DELETE FROM displays WHERE run = ? AND rank = ?", (run, rank))
    connection.execute(
        "INSERT INTO displays VALUES (?, ?, ?, 0, 0, 0, '{}', '{}')", (run, sequence, rank)
    )
    return ""


def _has_room(connection: sqlite3.Connection, run: int, rank: int, size: int) -> bool:
    amount, characters = connection.execute(
        "SELECT count(*), coalesce(sum(size), 0) FROM displays WHERE run = ? AND rank = ?",
        (run, rank),
    ).fetchone()
    room = amount < _SCRAP * RUN_DISPLAYS and characters + size < _SCRAP * RUN_CHARACTERS
    return bool(room)
