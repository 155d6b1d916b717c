"""List clusters, ranks, runs and the doctor's findings, as tables and as JSON."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Sequence
from dataclasses import asdict

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from workbench.cli.phrases import cluster_line, duration, moment, number, state_line, values_line
from workbench.cli.record import last_values
from workbench.core.diagnosis import Finding
from workbench.core.metrics import seconds_taken
from workbench.core.run import Run
from workbench.store import Store

_VERDICTS = {True: ("good", "green"), False: ("mend", "bold red"), None: ("–", "dim")}


def clusters_json(store: Store, names: Sequence[str], runs: Iterable[Run]) -> str:
    """Return clusters, their ranks and their unfinished runs as JSON."""
    clusters = []
    for name in names:
        wish, fact = store.cluster_wish(name), store.cluster_fact(name)
        clusters.append(
            {
                "wish": wish and asdict(wish),
                "fact": asdict(fact),
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
        fact = store.cluster_fact(name)
        parts.append(Text(cluster_line(store.cluster_wish(name), fact)))
        ranks = store.ranks(name, fact.generation) if fact.ranks else []
        rows = [(str(r.rank), r.host, str(r.pid), r.python, r.mpi) for r in ranks]
        if rows:
            parts.append(_table(("rank", "host", "process", "Python", "MPI"), rows))
    parts += [Text(f"Run {run.wish.name}: {state_line(run, now)}") for run in runs]
    return Group(*parts)


def runs_json(store: Store, runs: Iterable[Run]) -> str:
    """Return runs as JSON."""
    return _json([_run_values(store, run) for run in runs])


def runs_table(store: Store, runs: Iterable[Run], now: float) -> Table:
    """Return runs as a table.

    Args:
        store: Where their values are.
        runs: In the order in which to show them.
        now: Epoch seconds.
    """
    rows = [
        (
            run.wish.name,
            str(run.fact.state),
            str(run.fact.ranks or "–"),
            f"{run.fact.iteration:,}",
            moment(run.wish.created),
            duration(seconds_taken(run.fact, now)) if run.fact.started else "–",
            values_line(last_values(store, run)),
        )
        for run in runs
    ]
    headers = ("run", "state", "ranks", "iterations", "asked", "duration", "last values")
    return _table(headers, rows)


def comparison_table(store: Store, runs: Sequence[Run], now: float) -> Table:
    """Return runs side by side: a column each.

    Args:
        store: Where their values are.
        runs: In the order in which to show them.
        now: Epoch seconds.
    """
    values = [last_values(store, run) for run in runs]
    given = [dict(run.wish.parameters) for run in runs]
    names = sorted({name for found in values for name in found})
    parameters = sorted({name for found in given for name in found})
    rows = [
        ("id", *(run.id for run in runs)),
        ("state", *(str(run.fact.state) for run in runs)),
        ("ranks", *(str(run.fact.ranks) for run in runs)),
        ("iterations", *(f"{run.fact.iteration:,}" for run in runs)),
        ("duration", *(duration(seconds_taken(run.fact, now)) for run in runs)),
        *((name, *(str(found.get(name, "–")) for found in given)) for name in parameters),
        *((name, *(number(v[name]) if name in v else "–" for v in values)) for name in names),
    ]
    return _table(("", *(run.wish.name for run in runs)), rows)


def findings_table(findings: Iterable[Finding]) -> Group:
    """Return what the doctor found, each fault with its remedy below."""
    table = _table(("check", "verdict", "found"), ())
    faults = []
    for finding in findings:
        table.add_row(finding.check, Text(*_VERDICTS[finding.ok]), finding.found)
        if finding.remedy:
            faults.append(Text.assemble((finding.check, "bold"), ": ", finding.remedy))
    return Group(table, *faults)


def findings_json(findings: Iterable[Finding]) -> str:
    """Return what the doctor found as JSON."""
    return _json([asdict(finding) for finding in findings])


def _table(headers: Sequence[str], rows: Iterable[Sequence[str]]) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold", highlight=False)
    for header in headers:
        table.add_column(Text(header), overflow="fold")
    for row in rows:
        table.add_row(*(Text(cell) for cell in row))
    return table


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
