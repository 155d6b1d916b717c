"""Tables and JSON of clusters, nodes, ranks, runs and the doctor's findings."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict

from msgspec import to_builtins
from rich import table as rich_table
from rich.console import Group, RenderableType
from rich.text import Text

from workbench.analysis.network import network_sentence
from workbench.analysis.step_breakdown import read_breakdown, read_stored_breakdown
from workbench.core.cluster.model import ClusterWish
from workbench.core.node.findings import Finding
from workbench.core.run.model import Run
from workbench.store import Store
from workbench.store.disk import full_disk
from workbench.view.about_run import wish_values
from workbench.view.hang_text import hang_lines, is_hanging
from workbench.view.run_record import runs_before
from workbench.view.state_line import reason, state_line
from workbench.view.tables.listing import Table, conclusion, ranks_table
from workbench.view.tables.nodes import (
    fleet_message,
    fleet_of,
    money_line,
    nodes_line,
    nodes_table,
    purchases_table,
)
from workbench.view.text import VERDICTS, cluster_line

_COLOURS = {True: "green", False: "bold red", None: "dim"}


def clusters_json(store: Store, names: Sequence[str], runs: Iterable[Run], now: float) -> str:
    """Return clusters, their nodes and ranks, and their unfinished runs as JSON.

    Args:
        now: Epoch seconds.
    """
    clusters = []
    for name in names:
        wish, fact = store.cluster_wish(name), store.cluster_fact(name)
        clusters.append(
            {
                "wish": wish and asdict(wish),
                "fact": asdict(fact),
                "fleet": wish
                and to_builtins(fleet_message(fleet_of(store, wish, fact.ranks, now))),
                "ranks": [asdict(rank) for rank in store.ranks(name, fact.generation)],
            }
        )
    return _json(
        {"clusters": clusters, "runs": [_run_values(store, run, with_source=False) for run in runs]}
    )


def clusters_table(store: Store, names: Sequence[str], runs: Sequence[Run], now: float) -> Group:
    """Return each cluster's line and ranks, then its unfinished runs.

    Args:
        store: Where the facts are.
        names: The clusters.
        runs: The unfinished runs.
        now: Epoch seconds.
    """
    parts: list[RenderableType] = []
    if said := full_disk(store.path):
        parts.append(Text(said))
    for name in names:
        wish, fact = store.cluster_wish(name), store.cluster_fact(name)
        parts.append(Text(cluster_line(wish, fact)))
        parts += _nodes(store, wish, now) if wish is not None else []
        ranks = store.ranks(name, fact.generation) if fact.ranks else []
        if ranks:
            parts.append(text_table(ranks_table(ranks)))
    if not runs:
        parts.append(Text("No run is active; list earlier runs with `workbench runs`."))
    for run in runs:
        parts.append(Text(f"Run {run.wish.name}: {_standing(store, run, now)}"))
        parts += _hang(run)
        parts += [Text(f"  {sentence}") for sentence in read_breakdown(store, run, now=now).says]
    return Group(*parts)


def hangs(runs: Iterable[Run]) -> Group:
    """Return which ranks wait for which others in each of ``runs``, now or when it ended."""
    return Group(*(Text(f"{run.wish.name}:").append(line) for run in runs for line in _hang(run)))


def runs_json(store: Store, runs: Iterable[Run], *, with_source: bool) -> str:
    """Return runs as JSON."""
    return _json([_run_values(store, run, with_source=with_source) for run in runs])


def findings_table(findings: Iterable[Finding]) -> Group:
    """Return the doctor's findings, each problem with its remedy."""
    findings = [*findings]
    table = text_table(Table(("check", "verdict", "found"), ()))
    faults = []
    for finding in findings:
        verdict = Text(VERDICTS[finding.ok], _COLOURS[finding.ok])
        table.add_row(finding.title, verdict, finding.found)
        if finding.remedy:
            faults.append(Text.assemble((finding.title, "bold"), ": ", finding.remedy))
    return Group(table, Text(""), Text(conclusion(findings)), *faults)


def findings_json(findings: Iterable[Finding]) -> str:
    """Return the doctor's findings as JSON."""
    return _json([asdict(finding) for finding in findings])


def text_table(words: Table) -> rich_table.Table:
    """Return a table for the terminal."""
    table = rich_table.Table(box=None, pad_edge=False, header_style="bold", highlight=False)
    for column, header in enumerate(words.headers):
        is_numeric = words.is_numeric(-1, column)
        table.add_column(Text(header), overflow="fold", justify="right" if is_numeric else "left")
    for row in words.rows:
        table.add_row(*(Text(cell) for cell in row))
    return table


def _nodes(store: Store, wish: ClusterWish, now: float) -> Iterator[RenderableType]:
    if not wish.fleet.place.has_nodes:
        return
    fleet = fleet_of(store, wish, 0, now)
    if not wish.up and not fleet.nodes:
        return  # its price and expiry no longer apply
    yield Text(f"{wish.fleet.place.label}: {nodes_line(fleet)}, {money_line(fleet, now)}")
    if fleet.nodes:
        yield text_table(nodes_table(fleet.nodes, now, wish.fleet.place.unit))
    if said := network_sentence(store, wish.name):
        yield Text(said)
    if fleet.purchases:
        yield text_table(purchases_table(fleet.purchases))


def _hang(run: Run) -> list[Text]:
    colour = "yellow" if is_hanging(run) else ""
    return [Text(f" {line}", colour) for line in hang_lines(run)]


def _standing(store: Store, run: Run, now: float) -> str:
    cluster = run.wish.cluster
    before = runs_before(run, store.list_unfinished(cluster))
    why = reason(run, store.cluster_fact(cluster), before)
    return state_line(run, now, why, reclaimed=store.fleets.reclaimed_nodes(cluster))


def _run_values(store: Store, run: Run, *, with_source: bool) -> dict[str, object]:
    return {
        "wish": wish_values(run, with_source=with_source),
        "fact": asdict(run.fact),
        "final_values": store.reports.final_values(run.id),
        "verdict": read_stored_breakdown(store, run).says,
    }


def _json(value: object) -> str:
    return json.dumps(_finite(value), indent=2)


def _finite(value: object) -> object:
    """Return ``value`` with null for numbers that JSON lacks."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {key: _finite(item) for key, item in value.items()}
    return [_finite(item) for item in value] if isinstance(value, list | tuple) else value
