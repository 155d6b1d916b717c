"""Tables of runs and of a cluster's nodes, comparisons of runs, and the doctor's findings."""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence

from workbench.analysis.conclusion import goodput_sentences
from workbench.core.cluster.model import as_next_started
from workbench.core.node.findings import Finding
from workbench.core.run.model import Run
from workbench.errors import InputError, StateError
from workbench.notebook.cell_output import paragraph, stack_parts, table
from workbench.requests.run_deletion import delete_runs, find_chosen, what_goes
from workbench.requests.supervisor import other_version
from workbench.store import Store
from workbench.store.disk import full_disk
from workbench.view.about_run import about_rows
from workbench.view.html import element, join_html, words
from workbench.view.pictures.curve_layout import describe, panels_of
from workbench.view.run_output import Bundle, bundle_of, figure, live_bundle
from workbench.view.run_record import RunRecord, curves_of
from workbench.view.tables.listing import (
    Table,
    comparison_sentence,
    comparison_table,
    conclusion,
    folded_line,
    ranks_table,
    runs_table,
    verdict_lines,
)
from workbench.view.tables.nodes import (
    FleetNodes,
    fleet_of,
    money_line,
    nodes_line,
    nodes_table,
    purchases_table,
)
from workbench.view.text import VERDICTS, cluster_line, place
from workbench.view.transcript import Transcript

COMPARED_AT_MOST = 12


def newest_runs(store: Store, limit: int, now: float, *, printed: bool = False) -> Bundle:
    """Return the newest runs as a table.

    Args:
        now: Epoch seconds.
        printed: Cells that only printed are listed too.
    """
    if limit < 1:
        raise InputError(f"--limit must be at least 1, not {limit}.")
    runs = store.runs(limit=limit, printed=printed)
    folded = folded_line(store, runs, limit, "%dist_runs --all") if not printed else ""
    if not runs:
        return paragraph(folded or "There are no runs yet; start one with %%dist_train.")
    listed = table(runs_table(store, runs, now), f"Runs saved in {place(store.path.parent)}")
    return stack_parts([listed, paragraph(folded)]) if folded else listed


def comparison(store: Store, names: list[str], now: float) -> Bundle:
    """Return several runs in one picture and one table; a single one with its own curves.

    Args:
        now: Epoch seconds.

    Raises:
        StateError: One of the names is unknown.
    """
    if len(names) > COMPARED_AT_MOST:
        raise InputError(
            f"{len(names)} runs are too many for one picture", f"name at most {COMPARED_AT_MOST}."
        )
    runs = [*{run.id: run for run in map(store.run, names)}.values()]  # two may mean one run
    if len(runs) == 1:
        return one_run(store, runs[0], now)
    below = _compare_runs(store, runs, now)
    panels = panels_of({run.wish.name: curves_of(store, run) for run in runs})
    if not panels:
        return below
    shown = figure(panels, f"Runs compared: {', '.join(run.wish.name for run in runs)}")
    return {**shown, **below, "text/html": join_html([shown["text/html"], below["text/html"]])}


def _compare_runs(store: Store, runs: list[Run], now: float) -> Bundle:
    """Return a summary sentence, the table, and the verdict on each run."""
    parts = [table(comparison_table(store, runs, now))]
    if said := comparison_sentence(store, runs):
        parts.insert(0, paragraph(said))
    return stack_parts([*parts, *map(paragraph, verdict_lines(store, runs))])


def one_run(store: Store, run: Run, now: float) -> Bundle:
    """Return the state of a run; a page with our extension follows an unfinished one.

    Args:
        now: Epoch seconds.
    """
    record = RunRecord(run)
    record.look(store)
    record.read_points(store)
    if run.fact.state.ended:
        return bundle_of(store, record, Transcript(), now)
    panels = panels_of({"": record.curves})
    shown = figure(panels, "")["text/html"] if panels else words("")
    return live_bundle(run, record.line(now), shown, describe(panels))


def about(store: Store, names: list[str]) -> Bundle | None:
    """Return what a single run is made of, with its source folded; None for several.

    A page draws the run itself from its own data, so this is an output of its own.
    """
    if len({run.id for run in map(store.run, names)}) != 1:
        return None
    run = store.run(names[0])
    rows = tuple((part, text) for part, text in about_rows(run).items() if text)
    said = table(Table(("", "About this run"), rows))
    if not run.wish.source:
        return said
    code = element("pre", run.wish.source)
    source = element("details", element("summary", "Source"), code)
    return {
        "text/html": join_html([said["text/html"], source]),
        "text/plain": f"{said['text/plain']}\n\n{run.wish.source.rstrip()}",
    }


def delete(store: Store, chosen: argparse.Namespace) -> str:
    """Delete the runs selected by the options, and return the freed space.

    Raises:
        StateError: Not confirmed, or a named run has not ended.
    """
    runs = find_chosen(
        store, chosen.names, older=chosen.older, larger=chosen.larger, keep=chosen.keep
    )
    if not runs:
        return "No ended run matches, so nothing was deleted."
    if not chosen.yes:
        raise StateError(f"This would delete {what_goes(runs)} Add --yes to delete them.")
    return delete_runs(store, runs)


def findings_table(findings: Sequence[Finding]) -> Bundle:
    """Return the doctor's findings as a table."""
    rows = tuple((f.title, VERDICTS[f.ok], f.found, f.remedy) for f in findings)
    return table(Table(("check", "verdict", "found", "remedy"), rows), conclusion(findings))


def status_line(store: Store, cluster: str) -> str:
    """Return the cluster's state in one line, or how to start one."""
    wish, fact = store.cluster_wish(cluster), store.cluster_fact(cluster)
    if wish is None:
        return f"There is no cluster {cluster!r} yet; start it with %%dist_train or %dist_cluster."
    line = cluster_line(wish, fact)
    return " ".join(filter(None, (line, full_disk(store.path), other_version(cluster))))


def cluster_status(store: Store, cluster: str) -> Bundle:
    """Return the cluster's state, its costs, and tables of its nodes and ranks."""
    fact, line = store.cluster_fact(cluster), status_line(store, cluster)
    ranks = store.ranks(cluster, fact.generation) if fact.ranks else []
    wish, now = store.cluster_wish(cluster), time.time()
    wish = wish and as_next_started(wish, fact)
    if wish is None or not wish.fleet.place.has_nodes:
        return table(ranks_table(ranks), line) if ranks else paragraph(line)
    fleet = fleet_of(store, wish, fact.ranks, now)
    where = f"Provider: {wish.fleet.place.label}. Nodes: {nodes_line(fleet)}."
    parts = [paragraph(line, where, f"Price: {money_line(fleet, now)}."), *fleet_tables(fleet)]
    return stack_parts([*parts, *([table(ranks_table(ranks), "Ranks")] if ranks else [])])


def last_run_line(store: Store, cluster: str) -> str:
    """Return a line on the newest run, if no run is active."""
    runs = store.runs(cluster, limit=1)
    if not runs:
        return "No run yet."
    run = runs[0]
    name = run.wish.name
    shown = f"%dist_runs '{name}'" if " " in name else f"%dist_runs {name}"
    last = f"No run is active; the last one {run.fact.state} (show it with {shown})."
    return " ".join([last, *goodput_sentences(store, run, run.fact.ended)])


def fleet_tables(fleet: FleetNodes) -> list[Bundle]:
    """Return the purchases, while nodes are missing, and the nodes by state, as tables."""
    parts = []
    if fleet.purchases:
        parts.append(
            table(
                purchases_table(fleet.purchases), "Purchases, in the order in which they are tried"
            )
        )
    if fleet.nodes:
        unit = fleet.wish.fleet.place.unit
        parts.append(table(nodes_table(fleet.nodes, fleet.now, unit), "Nodes"))
    return parts
