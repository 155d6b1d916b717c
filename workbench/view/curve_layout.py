"""Arrange curves in panels, and describe them in words; nothing is drawn here."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from workbench.core.run.downsampling import Curve, Trace
from workbench.core.run.metrics import MAX_GROUPS, Group, group_names, is_validation
from workbench.core.units import count
from workbench.view.text import number

_COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00")  # Okabe and Ito


@dataclass(frozen=True)
class Style:
    """How a line is drawn."""

    name: str
    colour: str
    dashed: bool


@dataclass(frozen=True)
class CurveLine:
    """One curve as it is to be drawn."""

    style: Style
    trace: Trace


@dataclass(frozen=True)
class Panel:
    """Axes and what is drawn on them."""

    quantity: str
    lines: tuple[CurveLine, ...]

    @property
    def shape(self) -> tuple[str, tuple[Style, ...]]:
        """Everything except the curves themselves."""
        return self.quantity, tuple(line.style for line in self.lines)

    @property
    def bounds(self) -> tuple[float, float, float, float]:
        """Minimum and maximum of iterations and finite values; infinite without any."""
        xs = [x for line in self.lines for x in line.trace.iterations]
        traces = [line.trace for line in self.lines]
        lows = [y for trace in traces for y in trace.low if math.isfinite(y)]
        highs = [y for trace in traces for y in trace.high if math.isfinite(y)]
        return min(xs), max(xs), min(lows, default=math.inf), max(highs, default=-math.inf)


def panels_of(runs: Mapping[str, Mapping[str, Curve]]) -> list[Panel]:
    """Return a panel for each quantity.

    A single run has a colour for each curve. Several have one each, and dashes for validation.

    Args:
        runs: Run name to its curves.
    """
    names = {name for curves in runs.values() for name in curves}
    return [
        Panel(group.quantity, tuple(_lines(group, runs)))
        for group in group_names(names)[:MAX_GROUPS]
    ]


def describe(panels: Sequence[Panel], values: Mapping[str, float] | None = None) -> str:
    """Describe the picture in words, as its alternative text.

    Args:
        values: The last value of every name, if points are downsampled.
    """
    sentences = [_describe(line, values or {}) for panel in panels for line in panel.lines]
    return "; ".join(sentence for sentence in sentences if sentence) or "No curve yet"


def _lines(group: Group, runs: Mapping[str, Mapping[str, Curve]]) -> list[CurveLine]:
    found = [
        (run, name, curves[name].trace())
        for run, curves in runs.items()
        for name in group.names
        if name in curves
    ]
    if len(runs) == 1:
        return [
            CurveLine(Style(name, _COLOURS[i % len(_COLOURS)], dashed=False), trace)
            for i, (_, name, trace) in enumerate(found)
        ]
    colours = {run: _COLOURS[i % len(_COLOURS)] for i, run in enumerate(runs)}
    return [
        CurveLine(Style(f"{run}: {name}", colours[run], is_validation(name)), trace)
        for run, name, trace in found
    ]


def _describe(line: CurveLine, values: Mapping[str, float]) -> str:
    known = [
        (iteration, value)
        for iteration, value in zip(line.trace.iterations, line.trace.mean, strict=True)
        if math.isfinite(value)
    ]
    if not known:
        return ""
    name, (first, start), (last, end) = line.style.name, known[0], known[-1]
    exact = values.get(name, math.nan)
    end = exact if math.isfinite(exact) else end
    if first == last:
        return f"{name} is {number(end)} at iteration {last:.0f}"
    verb = "falls" if end < start else "rises" if end > start else "stays"
    return (
        f"{name} {verb} from {number(start)} to {number(end)} "
        f"over {count(round(last - first), 'iteration')}"
    )
