"""Say what a run is made of: source, arguments, parameters, notebook, date, commit and files."""

from __future__ import annotations

import csv
import hashlib
import shlex
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import IO, Any

from workbench.core.run.metrics import group_names
from workbench.core.run.model import Run, RunKind
from workbench.core.units import count
from workbench.store import Store
from workbench.store.paths import run_directory
from workbench.store.reports import PointRow
from workbench.view.text import moment, place

MOST_GIVEN = 60  # characters of a list's column
PIECE = 50_000  # points that are read at once
_KINDS = {RunKind.SETUP: "set-up cell", RunKind.MEASUREMENT: "measurement"}


def given_text(run: Run) -> str:
    """Return the arguments and parameters of a run in one line, as they are typed."""
    parameters = (f"{name}={value!r}" for name, value in run.wish.options.parameters)
    if run.wish.kind is RunKind.MEASUREMENT:
        return ""
    return " ".join([shlex.join(run.wish.options.arguments), *parameters]).strip()


def shorten_given(run: Run) -> str:
    """Return ``given_text`` as a list shows it."""
    text = " ".join(given_text(run).split())
    return text if len(text) <= MOST_GIVEN else f"{text[: MOST_GIVEN - 1]}…"


def about_rows(run: Run) -> dict[str, str]:
    """Return what a run is made of, by what each part is called; parts that it lacks are empty."""
    wish, origin = run.wish, run.wish.origin
    folder = run_directory(wish.id)
    variables = [name for name, _ in (*origin.environment, *wish.options.environment)]
    return {
        "asked": moment(wish.created),
        "note": wish.options.note,
        "source": _source(run),
        "arguments": shlex.join(wish.options.arguments),
        "notebook": place(Path(origin.notebook)) if origin.notebook else "",
        "git commit": origin.commit,
        "folder": place(Path(wish.folder)) if wish.folder else "",
        "variables": ", ".join(dict.fromkeys(variables)),  # never their values
        "files": place(folder) if folder.is_dir() else "",
    }


def wish_values(run: Run, *, with_source: bool) -> dict[str, Any]:
    """Return what was requested, in values for JSON: of variables only the names."""
    values = asdict(run.wish)
    values |= values.pop("options")
    origin = values.pop("origin")
    values["environment"] = [name for name, _ in run.wish.options.environment]
    origin["environment"] = [name for name, _ in run.wish.origin.environment]
    if not with_source:
        del values["source"]  # in a list a whole script would hide the rest
    return {**values, "origin": origin}


def points_of(store: Store, run: str) -> Iterator[PointRow]:
    """Yield every value that the training itself reported, of every rank, in the order of time."""
    after, shown = 0, dict[str, bool]()
    while rows := store.reports.points(run, after, PIECE):
        for row in rows:
            if row.name not in shown:
                shown[row.name] = bool(group_names([row.name]))
            if shown[row.name]:
                yield row
        after = rows[-1].sequence


def write_csv(store: Store, runs: Iterable[Run], file: IO[str]) -> None:
    """Write the points of runs as a table, a value a row."""
    table = csv.writer(file, lineterminator="\n")
    table.writerow(("run", "rank", "iteration", "time", "name", "value"))
    for run in runs:
        table.writerows((run.wish.name, *row[1:]) for row in points_of(store, run.id))


def select_parts(runs: Sequence[Run]) -> Iterator[tuple[str, list[str]]]:
    """Yield the parts that a table of runs shows: all of one run, else those that differ.

    The date and the source are always among them.
    """
    rows = [about_rows(run) for run in runs]
    for part in rows[0] if rows else ():
        cells = [row[part] for row in rows]
        if part == "source" and len(rows) > 1:  # a notebook with the table is sent to others
            cells = [cell.rpartition("/")[2] for cell in cells]
        differs = len({*cells}) > 1 and part != "files"
        is_shown = part in ("asked", "source") or len(rows) == 1 or differs
        if any(cells) and is_shown:
            yield part, cells


def _source(run: Run) -> str:
    """Return where the source is from, its length, and a mark that differs if the text does."""
    wish = run.wish
    if not wish.source:
        return _KINDS.get(wish.kind, str(wish.kind))
    kind = _KINDS.get(wish.kind, str(wish.kind))
    name = wish.origin.module or (place(Path(wish.path)) if wish.path else kind)
    mark = hashlib.sha256(wish.source.encode(errors="replace")).hexdigest()[:7]
    return f"{name}, {count(len(wish.source.splitlines()), 'line')}, {mark}"
