"""List runs, and lay several of them side by side."""

from __future__ import annotations

import base64
from html import escape

from workbench.core.metrics import STEP_PREFIX, is_step_time, reported, seconds_taken
from workbench.core.run import Run
from workbench.errors import InputError
from workbench.notebook import chart
from workbench.notebook.page import Bundle, Row, table
from workbench.notebook.phrases import duration, moment, number, values_line
from workbench.notebook.record import Record
from workbench.notebook.run_view import folder, summary_text
from workbench.store import Store

COMPARED_AT_MOST = 12


def runs_table(store: Store, limit: int, now: float) -> Bundle:
    """Return the newest runs as a table.

    Args:
        now: Epoch seconds.
    """
    if limit < 1:
        raise InputError(f"--limit must be at least 1, not {limit}.")
    runs = store.runs(limit=limit)
    if not runs:
        text = "There are no runs yet; %%dist_train starts one."
        return {"text/plain": text, "text/html": f"<p>{escape(text)}</p>"}
    rows = [
        (
            run.wish.name,
            str(run.fact.state),
            str(run.fact.ranks or "–"),
            moment(run.wish.created),
            duration(seconds_taken(run.fact, now)) if run.fact.started else "–",
            values_line(store.final_values(run.id)),
        )
        for run in runs
    ]
    headers = ("run", "state", "ranks", "asked", "duration", "last values")
    return table(headers, rows, f"Runs kept in {folder(store)}")


def comparison(store: Store, names: list[str], now: float) -> Bundle:
    """Return several runs in one picture and one table; a single one with its own curves.

    Args:
        now: Epoch seconds.

    Raises:
        StateError: One of the names is unknown.
    """
    if len(names) > COMPARED_AT_MOST:
        raise InputError(f"{len(names)} runs make no picture; name at most {COMPARED_AT_MOST}.")
    records = [_read(store, name) for name in dict.fromkeys(names)]
    runs = [record.run for record in records]
    if len(records) == 1:
        panels = chart.panels_of_run(records[0].curves)
        values = store.final_values(runs[0].id)
        text = summary_text(runs[0], values, folder(store), now)
        below: Bundle = {"text/html": f"<pre>{escape(text)}</pre>", "text/plain": text}
    else:
        panels = chart.panels_of_runs({r.run.wish.name: r.curves for r in records})
        below = _side_by_side(store, runs, now)
    if not panels:
        return below
    picture = chart.png(panels)
    caption = ", ".join(run.wish.name for run in runs)
    figure = chart.figure_html(picture, chart.describe(panels), caption)
    return {
        "image/png": base64.b64encode(picture).decode(),
        "text/html": figure + below["text/html"],
        "text/plain": below["text/plain"],
    }


def _read(store: Store, name: str) -> Record:
    record = Record(store.run(name))
    for _ in record.read(store):
        pass
    return record


def _side_by_side(store: Store, runs: list[Run], now: float) -> Bundle:
    values = [store.final_values(run.id) for run in runs]
    names = list(reported(dict.fromkeys({name for found in values for name in found}, 0.0)))
    rows = [
        ("state", *(str(run.fact.state) for run in runs)),
        ("ranks", *(str(run.fact.ranks) for run in runs)),
        ("duration", *(duration(seconds_taken(run.fact, now)) for run in runs)),
        ("iterations", *(f"{run.fact.iteration:,}" for run in runs)),
        *(_parameter_rows(runs)),
        *((name, *(number(v[name]) if name in v else "–" for v in values)) for name in names),
        *_step_rows(values),
    ]
    return table(("", *(run.wish.name for run in runs)), rows)


def _parameter_rows(runs: list[Run]) -> list[Row]:
    given = [dict(run.wish.parameters) for run in runs]
    names = sorted({name for parameters in given for name in parameters})
    return [(name, *(str(parameters.get(name, "–")) for parameters in given)) for name in names]


def _step_rows(values: list[dict[str, float]]) -> list[tuple[str, ...]]:
    names = sorted({name for found in values for name in found if is_step_time(name)})
    return [
        (
            f"{name.removeprefix(STEP_PREFIX)}, ms a step",
            *(number(1000 * found[name]) if name in found else "–" for found in values),
        )
        for name in names
    ]
