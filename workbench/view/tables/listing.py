"""Tables of runs, ranks and the doctor's findings."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from workbench.analysis.step_breakdown import read_breakdown
from workbench.core.fleet.model import FleetWish
from workbench.core.node.findings import Finding
from workbench.core.performance.comparison import StepSummary, compare_runs
from workbench.core.performance.step_sampling import LABELS
from workbench.core.recovery.parts import fatal_losses
from workbench.core.recovery.resumption import NONE
from workbench.core.recovery.snapshots import MANIFEST, SnapshotManifest, decode_manifest, whole
from workbench.core.run.metrics import seconds_taken, select_reported
from workbench.core.run.model import Run
from workbench.core.units import count, milliseconds, size_text
from workbench.core.world.world import RankFact
from workbench.store import Store
from workbench.store.paths import snapshot_directory
from workbench.view.about_run import select_parts, shorten_given
from workbench.view.html import Html, element, sentence
from workbench.view.text import NOTHING, duration, moment, number, values_line

Row = tuple[str, ...]
INDENT = "\N{NO-BREAK SPACE}" * 2
_AMOUNT = r"\$?[−-]?\d[\d,]*(\.\d+)?(e-?\d+)?"
_UNIT = r"( ?([µmk]?s|min|h|d|%|[kMGT]?B|[KMGT]iB|[MG]bit/s|it/s)(/[sh])?|/h)?"
_NUMBER = re.compile(rf"{_AMOUNT}{_UNIT}([–/ ]{_AMOUNT}{_UNIT})*")
_MOMENT = re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d")
# JupyterLab aligns cells to the right and centres tables by default.
_CELL = "padding: 2px 12px 2px 4px; text-align:"


@dataclass(frozen=True)
class Table:
    """Rows of text, each as long as ``headers``.

    Args:
        sideways: Whether each row, not each column, has one quantity.
    """

    headers: Row
    rows: tuple[Row, ...]
    sideways: bool = False

    def is_numeric(self, row: int, column: int) -> bool:
        """Whether a cell is aligned as a number; row -1 is the header."""
        if self.sideways:
            return row >= 0 and column > 0 and _are_numbers(self.rows[row][1:])
        return _are_numbers(cells[column] for cells in self.rows)


def table_html(table: Table, caption: str = "") -> Html:
    """Return a table for a page."""
    sides = [
        ["right" if table.is_numeric(row, column) else "left" for column in range(len(cells))]
        for row, cells in enumerate((table.headers, *table.rows), -1)
    ]
    head = map(head_cell, table.headers, sides[0])
    body = [
        element("tr", *map(cell, row, side))
        for row, side in zip(table.rows, sides[1:], strict=True)
    ]
    return frame_table([element("thead", element("tr", *head)), element("tbody", *body)], caption)


def frame_table(parts: Iterable[Html], caption: str = "") -> Html:
    """Return a table of these parts, with a caption as wide as the page."""
    made = element("table", *parts, style="margin: 0; border-collapse: collapse")
    if not caption:
        return made
    title = element("figcaption", sentence(caption), style="text-align: left; font-weight: bold")
    return element("figure", title, made, style="margin: 0 0 8px 0")


def cell(text: str, side: str = "left") -> Html:
    """Return a cell of a table."""
    is_short = side == "right" or _MOMENT.fullmatch(text)
    style = f"{_CELL} {side}; white-space: nowrap" if is_short else f"{_CELL} {side}"
    return element("td", sentence(text), style=style)


def head_cell(text: str, side: str = "left", scope: str = "col") -> Html:
    """Return a header cell of a column or a row."""
    return element("th", sentence(text), scope=scope, style=f"{_CELL} {side}")


def table_text(table: Table, caption: str = "") -> str:
    """Return a table for a terminal or a file."""
    rows = (table.headers, *table.rows)
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = [
        "  ".join(
            f"{text:{'>' if table.is_numeric(number, column) else '<'}{widths[column]}}"
            for column, text in enumerate(row)
        ).rstrip()
        for number, row in enumerate(rows, -1)
    ]
    return "\n".join([caption, *lines] if caption else lines)


def conclusion(findings: Sequence[Finding]) -> str:
    """Summarize the doctor's findings in one sentence."""
    problems = sum(finding.ok is False for finding in findings)
    if not problems:
        return "No problems found."
    remedies = "its remedy" if problems == 1 else "their remedies"
    return f"{count(problems, 'problem')} found, with {remedies}."


def ranks_table(ranks: Iterable[RankFact]) -> Table:
    """Return the table of ranks: host, process and versions."""
    rows = tuple((str(r.rank), r.host, str(r.pid), r.python, r.mpi) for r in ranks)
    return Table(("rank", "host", "process", "Python", "MPI"), rows)


def runs_table(store: Store, runs: Iterable[Run], now: float) -> Table:
    """Return the table of runs, in the given order.

    Args:
        now: Epoch seconds.
    """
    runs = [*runs]
    given = [shorten_given(run) for run in runs]
    notes = [run.wish.options.note for run in runs]
    rows = tuple(
        (
            run.wish.name,
            *([note] if any(notes) else []),
            *([text] if any(given) else []),
            _state(run),
            str(run.fact.ranks or NOTHING),
            f"{run.fact.iteration:,}",
            moment(run.wish.created),
            _duration(run, now),
            values_line(store.reports.final_values(run.id)),
        )
        for run, note, text in zip(runs, notes, given, strict=True)
    )
    titles = ("state", "ranks", "iterations", "asked", "duration", "last values")
    extra = [title for title, cells in (("note", notes), ("given", given)) if any(cells)]
    return Table(("run", *extra, *titles), rows)


def folded_line(store: Store, listed: Sequence[Run], limit: int, command: str) -> str:
    """Return a sentence on the cells that are not listed; empty without any.

    Args:
        limit: Maximum number of listed runs.
        command: The command that lists them.
    """
    whole = len(listed) < limit
    folded = store.count_printed(since="" if whole else listed[-1].id)
    if not folded:
        return ""
    lead = "And" if listed else "There are no runs but"
    return f"{lead} {count(folded, 'cell')} that only printed; `{command}` lists them."


def comparison_table(store: Store, runs: Sequence[Run], now: float) -> Table:
    """Return the comparison table: one column for each run.

    Args:
        now: Epoch seconds.
    """
    headers = ("", *(run.wish.name for run in runs))
    return Table(headers, tuple(_compare_rows(store, runs, now)), sideways=True)


def _state(run: Run) -> str:
    attempt = run.fact.attempt
    return f"{run.fact.state}, attempt {attempt}" if attempt > 1 else str(run.fact.state)


def _are_numbers(cells: Iterable[str]) -> bool:
    known = [text for text in cells if text not in ("", NOTHING)]
    return bool(known) and all(_NUMBER.fullmatch(text) for text in known)


def _compare_rows(store: Store, runs: Sequence[Run], now: float) -> Iterator[Row]:
    yield "id", *(run.id for run in runs)
    yield "state", *(_state(run) for run in runs)
    yield "ranks", *(str(run.fact.ranks or NOTHING) for run in runs)
    yield "iterations", *(f"{run.fact.iteration:,}" for run in runs)
    yield "duration", *(_duration(run, now) for run in runs)
    for part, cells in select_parts(runs):
        yield part, *(text or NOTHING for text in cells)
    snapshots = [newest_snapshot_text(store, run) for run in runs]
    if any(snapshots):
        yield "newest snapshot", *(text or NOTHING for text in snapshots)
    given = [dict(run.wish.options.parameters) for run in runs]
    for name in sorted({name for parameters in given for name in parameters}):
        yield name, *(str(parameters.get(name, NOTHING)) for parameters in given)
    values = [store.reports.final_values(run.id) for run in runs]
    measured = {name: 0.0 for found in values for name in found}
    for name in select_reported(measured):
        yield name, *(number(found[name]) if name in found else NOTHING for found in values)
    yield from _steps([read_breakdown(store, run).summary for run in runs])


def _steps(steps: Sequence[StepSummary | None]) -> Iterator[Row]:
    """Yield the rows of a step's time in milliseconds: the total, then its parts, indented."""
    longest = max((step.total for step in steps if step), default=0.0)
    if any(steps):
        totals = (milliseconds(step.total, longest) if step else NOTHING for step in steps)
        yield "ms a step", *totals
    for part, label in LABELS.items():
        if any(step and part in step.parts for step in steps):
            taken = (step.parts.get(part) if step else None for step in steps)
            cells = (NOTHING if took is None else milliseconds(took, longest) for took in taken)
            yield INDENT + label, *cells


def comparison_sentence(store: Store, runs: Sequence[Run]) -> str:
    """Compare the speed of runs in a sentence; empty if unknown."""
    return compare_runs([(run.wish.name, read_breakdown(store, run).summary) for run in runs])


def verdict_lines(store: Store, runs: Sequence[Run]) -> list[str]:
    """Return the verdicts of the runs that have one."""
    says = ((run.wish.name, read_breakdown(store, run).says) for run in runs)
    return [f"{name}: {' '.join(sentences)}" for name, sentences in says if sentences]


def _duration(run: Run, now: float) -> str:
    return duration(seconds_taken(run.fact, now)) if run.fact.started else NOTHING


def newest_snapshot_text(store: Store, run: Run) -> str:
    """Return iteration, size and place of a run's newest snapshot; empty if it has none."""
    wish = store.cluster_wish(run.wish.cluster)
    fleet = wish.fleet if wish is not None else FleetWish()
    saved = store.attempts.newest_saved(run.id)
    text = describe_snapshots(
        saved.iteration if saved else NONE, _find_local_snapshots(run.id), fleet
    )
    savers = saved.savers if saved and fleet.place.is_remote else ()
    return "; ".join(filter(None, (text, describe_parts(savers))))


def describe_parts(savers: Sequence[Sequence[int]]) -> str:
    """Return what a loss of two nodes at once costs a run whose state is divided; else nothing.

    Args:
        savers: The nodes that save each part of its newest snapshot.
    """
    nodes = {node for part in savers for node in part}
    if len(nodes) < 2:
        return ""
    fatal, pairs = fatal_losses(savers, max(nodes) + 1, 2)
    what = f"in {count(len(savers), 'part')}, so a loss of two nodes at once takes it"
    return f"{what} in {fatal} of {pairs} cases" if fatal else f"{what} in no case"


def describe_snapshots(reported: int, here: Sequence[SnapshotManifest], fleet: FleetWish) -> str:
    """Return the text for the snapshots of a run.

    Args:
        reported: The iteration of the newest one that the ranks have reported; -1 for none.
        here: Those in the run's folder on this machine.
        fleet: The nodes of its cluster.
    """
    newest = max(whole(here), key=lambda one: one.age, default=None)
    if newest is None and reported == NONE:
        return ""
    at = max(reported, newest.iteration if newest else NONE)
    is_here = newest is not None and newest.iteration == at
    of_newest = [one for one in here if newest is not None and one.age == newest.age]
    nbytes = sum(file.nbytes for one in of_newest for file in one.files)
    size = f", {size_text(nbytes)}" if is_here else ""
    if not fleet.place.is_remote:
        where = " on this machine" if is_here else ""
    elif fleet.snapshots:
        where = f" on its nodes; copies in {fleet.snapshots}"
    elif newest is None:
        where = " on its nodes alone"
    else:
        where = "; copied to this machine" + ("" if is_here else f": {newest.iteration:,}")
    return f"iteration {at:,}{size}{where}"


def _find_local_snapshots(run: str) -> list[SnapshotManifest]:
    found = []
    for path in snapshot_directory(run).glob(f"[!.]*/{MANIFEST}"):
        with contextlib.suppress(OSError, ValueError):
            found.append(decode_manifest(path.read_text(encoding="utf-8")))
    return found
