"""Lay runs, ranks and the doctor's findings out as tables of words."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from html import escape

from workbench.core.cluster import RankFact
from workbench.core.metrics import STEP_PREFIX, is_step_time, reported, seconds_taken
from workbench.core.run import Run
from workbench.store import Store
from workbench.view.anatomy import anatomy_of
from workbench.view.phrases import duration, moment, number, values_line

Row = tuple[str, ...]
NOTHING = "–"
VERDICTS = {True: "✓ good", False: "✗ mend", None: f"{NOTHING} not checked"}


@dataclass(frozen=True)
class Table:
    """Words in rows, each as long as ``headers``."""

    headers: Row
    rows: tuple[Row, ...]


def table_html(table: Table, caption: str = "") -> str:
    """Return a table for a page."""
    head = "".join(f'<th scope="col">{escape(text)}</th>' for text in table.headers)
    body = "".join(
        "<tr>" + "".join(f"<td>{escape(text)}</td>" for text in row) + "</tr>" for row in table.rows
    )
    title = f"<caption>{escape(caption)}</caption>" if caption else ""
    return f"<table>{title}<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def table_text(table: Table, caption: str = "") -> str:
    """Return a table for a terminal or a file."""
    rows = (table.headers, *table.rows)
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = [
        "  ".join(text.ljust(width) for text, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    ]
    return "\n".join([caption, *lines] if caption else lines)


def ranks_table(ranks: Iterable[RankFact]) -> Table:
    """Return where each rank is and what it runs."""
    rows = tuple((str(r.rank), r.host, str(r.pid), r.python, r.mpi) for r in ranks)
    return Table(("rank", "host", "process", "Python", "MPI"), rows)


def runs_table(store: Store, runs: Iterable[Run], now: float) -> Table:
    """Return runs in the order in which they come.

    Args:
        now: Epoch seconds.
    """
    rows = (
        (
            run.wish.name,
            str(run.fact.state),
            str(run.fact.ranks or NOTHING),
            f"{run.fact.iteration:,}",
            moment(run.wish.created),
            _duration(run, now),
            values_line(store.final_values(run.id)),
        )
        for run in runs
    )
    headers = ("run", "state", "ranks", "iterations", "asked", "duration", "last values")
    return Table(headers, tuple(rows))


def comparison_table(store: Store, runs: Sequence[Run], now: float) -> Table:
    """Return runs side by side: a column each.

    Args:
        now: Epoch seconds.
    """
    return Table(("", *(run.wish.name for run in runs)), tuple(_compared(store, runs, now)))


def _compared(store: Store, runs: Sequence[Run], now: float) -> Iterator[Row]:
    yield "id", *(run.id for run in runs)
    yield "state", *(str(run.fact.state) for run in runs)
    yield "ranks", *(str(run.fact.ranks or NOTHING) for run in runs)
    yield "iterations", *(f"{run.fact.iteration:,}" for run in runs)
    yield "duration", *(_duration(run, now) for run in runs)
    given = [dict(run.wish.parameters) for run in runs]
    for name in sorted({name for parameters in given for name in parameters}):
        yield name, *(str(parameters.get(name, NOTHING)) for parameters in given)
    values = [store.final_values(run.id) for run in runs]
    measured = {name: 0.0 for found in values for name in found}
    for name in reported(measured):
        yield name, *(number(found[name]) if name in found else NOTHING for found in values)
    for name in sorted(filter(is_step_time, measured)):
        milliseconds = (number(1000 * v[name]) if name in v else NOTHING for v in values)
        yield f"{name.removeprefix(STEP_PREFIX)}, ms a step", *milliseconds
    says = [" ".join(anatomy_of(store, run).says) for run in runs]
    if any(says):
        yield "verdict", *(sentence or NOTHING for sentence in says)


def _duration(run: Run, now: float) -> str:
    return duration(seconds_taken(run.fact, now)) if run.fact.started else NOTHING
