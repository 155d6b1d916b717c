"""Show rows as a table in a terminal, as Markdown and as JSON."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict

from rich.console import Console
from rich.table import Table

from .figures import LOAD, Row, Series, with_interval

HEADS = ("what", "workbench", "instead", "ratio (least to greatest)", "goal", "")
Results = Mapping[str, Sequence[Row]]


def show(console: Console, machine: Mapping[str, str], results: Results) -> None:
    """Print the table, the machine below it."""
    table = Table(*HEADS, title="Medians; each pair measured in turn", show_lines=False)
    for name, rows in results.items():
        table.add_section()
        for row in rows:
            table.add_row(*_cells(row), style=None if row.met is not False else "yellow")
        if not rows:
            table.add_row(name, "failed")
    console.print(table)
    console.print(_machine(machine))


def markdown(machine: Mapping[str, str], results: Results) -> str:
    """Return the table of docs/benchmarks.md."""
    lines = ["| " + " | ".join(HEADS) + " |", "|---|---|---|---|---|---|"]
    for rows in results.values():
        lines += ["| " + " | ".join(_cells(row)) + " |" for row in rows]
    return "\n".join([*lines, "", _machine(machine)])


def as_json(seed: int, machine: Mapping[str, str], results: Results) -> str:
    """Return everything that was measured."""
    rows = {
        name: [
            {**asdict(row), "ratio": row.ratio, "spread": row.spread, "met": row.met}
            for row in found
        ]
        for name, found in results.items()
    }
    return json.dumps({"seed": seed, "machine": dict(machine), "benchmarks": rows}, indent=1)


def _cells(row: Row) -> tuple[str, ...]:
    spread = ""
    if row.ratio is not None and row.spread is not None:
        low, high = row.spread
        spread = f"{row.ratio:.3g} ({low:.3g} to {high:.3g})"
        if 0.5 < row.ratio < 2:
            spread = f"{row.ratio:.3f} ({low:.3f} to {high:.3f})"
        if row.pairs:
            resolution = f"{50 * (high - low):.2g} %"
            spread = f"{with_interval(row.pairs)}, 95 % interval: resolution {resolution}"
    goal = f"≤ {row.goal:.4g}" if row.goal is not None else ""
    goal = f"≤ {quantity(row.limit, row.unit)}" if row.limit is not None else goal
    met = {True: "met", False: "missed", None: ""}[row.met]
    what = f"{row.what}; {row.note}" if row.note else row.what
    if row.ours and (load := max(row.ours.loads, default=0.0)) > LOAD:
        what += f"; beside other programs, which used {load:.1f} cores"
    return what, _series(row.ours, row.unit), _series(row.theirs, row.unit), spread, goal, met


def _series(series: Series | None, unit: str) -> str:
    return f"{quantity(series.median, unit)}, {series.label}" if series else "–"


def _machine(machine: Mapping[str, str]) -> str:
    return "Measured on: " + ", ".join(f"{name} {value}" for name, value in machine.items()) + "."


def quantity(value: float, unit: str) -> str:
    """Return a value with a unit that reads well."""
    if unit == "s":
        return f"{1e3 * value:.3g} ms" if value < 1 else f"{value:.3g} s"
    if unit == "B":
        return f"{value / 1e6:.3g} MB" if value >= 1e6 else f"{value / 1e3:.3g} kB"
    if unit == "1/s":
        return f"{value:,.0f}/s"
    if unit == "modules":
        return f"{value:.0f} {unit}"
    return f"{value:.2f} {unit}"
