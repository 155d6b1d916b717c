"""List runs, lay several of them side by side, and show what the doctor found."""

from __future__ import annotations

from collections.abc import Sequence

from workbench.core.diagnosis import Finding
from workbench.core.run import Run
from workbench.errors import InputError
from workbench.notebook.page import paragraph, table
from workbench.store import Store
from workbench.view.kept import Bundle, bundle_of, figure, live_bundle
from workbench.view.listing import VERDICTS, Table, comparison_table, runs_table
from workbench.view.panels import describe, panels_of
from workbench.view.phrases import place
from workbench.view.record import Record, curves_of
from workbench.view.transcript import Transcript

COMPARED_AT_MOST = 12


def newest_runs(store: Store, limit: int, now: float) -> Bundle:
    """Return the newest runs as a table.

    Args:
        now: Epoch seconds.
    """
    if limit < 1:
        raise InputError(f"--limit must be at least 1, not {limit}.")
    runs = store.runs(limit=limit)
    if not runs:
        return paragraph("There are no runs yet; %%dist_train starts one.")
    return table(runs_table(store, runs, now), f"Runs kept in {place(store.path.parent)}")


def comparison(store: Store, names: list[str], now: float) -> Bundle:
    """Return several runs in one picture and one table; a single one with its own curves.

    Args:
        now: Epoch seconds.

    Raises:
        StateError: One of the names is unknown.
    """
    if len(names) > COMPARED_AT_MOST:
        raise InputError(f"{len(names)} runs make no picture; name at most {COMPARED_AT_MOST}.")
    runs = [store.run(name) for name in dict.fromkeys(names)]
    if len(runs) == 1:
        return one_run(store, runs[0], now)
    below = table(comparison_table(store, runs, now))
    panels = panels_of({run.wish.name: curves_of(store, run) for run in runs})
    if not panels:
        return below
    shown = figure(panels, ", ".join(run.wish.name for run in runs))
    return {**shown, **below, "text/html": shown["text/html"] + below["text/html"]}


def one_run(store: Store, run: Run, now: float) -> Bundle:
    """Return a run as it is; a page with our extension goes on to follow one that has not ended.

    Args:
        now: Epoch seconds.
    """
    record = Record(run)
    record.look(store)
    record.read_points(store)
    if run.fact.state.ended:
        return bundle_of(store, record, Transcript(), now)
    panels = panels_of({"": record.curves})
    shown = figure(panels, "")["text/html"] if panels else ""
    return live_bundle(run, record.line(now), shown, describe(panels))


def findings_table(findings: Sequence[Finding]) -> Bundle:
    """Return what the doctor found as a table."""
    rows = tuple((f.check, VERDICTS[f.ok], f.found, f.remedy) for f in findings)
    return table(Table(("check", "verdict", "found", "remedy"), rows))
