"""List clusters, nodes, ranks, runs and the doctor's findings, as tables and as JSON."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict

from rich import table as rich_table
from rich.console import Group, RenderableType
from rich.text import Text

from workbench.core.cluster import ClusterWish
from workbench.core.diagnosis import Finding
from workbench.core.fleet import Place
from workbench.core.run import Run
from workbench.store import Store
from workbench.view.anatomy import anatomy_of
from workbench.view.listing import VERDICTS, Table, ranks_table
from workbench.view.nodes import (
    PLACES,
    fleet_message,
    fleet_of,
    money_line,
    nodes_line,
    nodes_table,
    rungs_table,
)
from workbench.view.phrases import cluster_line, state_line
from workbench.view.record import runs_before
from workbench.view.waiting import reason

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
                "fleet": wish and fleet_message(fleet_of(store, wish, fact.ranks, now)),
                "ranks": [asdict(rank) for rank in store.ranks(name, fact.generation)],
            }
        )
    return _json({"clusters": clusters, "runs": [_run_values(store, run) for run in runs]})


def clusters_table(store: Store, names: Sequence[str], runs: Sequence[Run], now: float) -> Group:
    """Return each cluster's line and ranks, then what runs and waits.

    Args:
        store: Where the facts are.
        names: The clusters.
        runs: The unfinished runs.
        now: Epoch seconds.
    """
    parts: list[RenderableType] = []
    for name in names:
        wish, fact = store.cluster_wish(name), store.cluster_fact(name)
        parts.append(Text(cluster_line(wish, fact)))
        parts += _nodes(store, wish, now) if wish is not None else []
        ranks = store.ranks(name, fact.generation) if fact.ranks else []
        if ranks:
            parts.append(text_table(ranks_table(ranks)))
    for run in runs:
        parts.append(Text(f"Run {run.wish.name}: {_standing(store, run, now)}"))
        parts += [Text(f"  {sentence}") for sentence in anatomy_of(store, run).says]
    return Group(*parts)


def runs_json(store: Store, runs: Iterable[Run]) -> str:
    """Return runs as JSON."""
    return _json([_run_values(store, run) for run in runs])


def findings_table(findings: Iterable[Finding]) -> Group:
    """Return what the doctor found, each fault with its remedy below."""
    table = text_table(Table(("check", "verdict", "found"), ()))
    faults = []
    for finding in findings:
        verdict = Text(VERDICTS[finding.ok], _COLOURS[finding.ok])
        table.add_row(finding.check, verdict, finding.found)
        if finding.remedy:
            faults.append(Text.assemble((finding.check, "bold"), ": ", finding.remedy))
    return Group(table, *faults)


def findings_json(findings: Iterable[Finding]) -> str:
    """Return what the doctor found as JSON."""
    return _json([asdict(finding) for finding in findings])


def text_table(words: Table) -> rich_table.Table:
    """Return a table for the terminal."""
    table = rich_table.Table(box=None, pad_edge=False, header_style="bold", highlight=False)
    for header in words.headers:
        table.add_column(Text(header), overflow="fold")
    for row in words.rows:
        table.add_row(*(Text(cell) for cell in row))
    return table


def _nodes(store: Store, wish: ClusterWish, now: float) -> Iterator[RenderableType]:
    if wish.fleet.place is Place.LOCAL:
        return
    fleet = fleet_of(store, wish, 0, now)
    if not wish.up and not fleet.nodes:
        return  # it costs nothing, and lives no longer
    yield Text(f"{PLACES[wish.fleet.place]}: {nodes_line(fleet)}, {money_line(fleet, now)}")
    if fleet.nodes:
        yield text_table(nodes_table(fleet.nodes))
    if fleet.orders:
        yield text_table(rungs_table(fleet.orders))


def _standing(store: Store, run: Run, now: float) -> str:
    cluster = run.wish.cluster
    before = runs_before(run, store.unfinished(cluster))
    return state_line(run, now, reason(run, store.cluster_fact(cluster), before))


def _run_values(store: Store, run: Run) -> dict[str, object]:
    wish = asdict(run.wish)
    del wish["source"]  # a script's whole text would bury the rest
    return {"wish": wish, "fact": asdict(run.fact), "final_values": store.final_values(run.id)}


def _json(value: object) -> str:
    return json.dumps(_finite(value), indent=2)


def _finite(value: object) -> object:
    """Return ``value`` with null for what JSON has no number for."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {key: _finite(item) for key, item in value.items()}
    return [_finite(item) for item in value] if isinstance(value, list | tuple) else value
