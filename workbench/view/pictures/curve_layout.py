"""Arrange curves in panels, and describe them in words; nothing is drawn here."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from workbench.core.curves import Curve, Trace
from workbench.core.run.metrics import MAX_GROUPS, MetricGroup, group_names, is_validation
from workbench.core.units import count, number

_COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00")  # Okabe and Ito


@dataclass(frozen=True)
class Style:
    """How a line is drawn."""

    name: str
    colour: str
    dashed: bool


@dataclass(frozen=True)
class CurveLine:
    """One curve as it is to be drawn.

    Args:
        redone: Stretches of it that later attempts did again.
    """

    style: Style
    trace: Trace
    curve: Curve
    redone: tuple[Trace, ...] = ()


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
        traces = [trace for line in self.lines for trace in (line.trace, *line.redone)]
        xs = [x for trace in traces for x in trace.iterations]
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


def add_redone(panels: Sequence[Panel], redone: Mapping[int, Mapping[str, Curve]]) -> list[Panel]:
    """Return the panels of one run with the stretches that later attempts did again.

    Args:
        redone: Attempt to its stretches by name.
    """

    def whole(line: CurveLine) -> CurveLine:
        found = (curves.get(line.style.name) for curves in redone.values())
        return replace(line, redone=tuple(curve.trace() for curve in found if curve))

    return [replace(panel, lines=tuple(map(whole, panel.lines))) for panel in panels]


def describe(panels: Sequence[Panel], values: Mapping[str, float] | None = None) -> str:
    """Describe the picture in words, as its alternative text.

    Args:
        values: The last value of every name.
    """
    known = values or {}
    sentences = [
        f"{name} {curve_description(line.curve, known.get(name, math.nan))}"
        for panel in panels
        for line in panel.lines
        for name in (line.style.name,)
    ]
    return "; ".join(sentences) or "No curve yet"


def curve_description(curve: Curve, last: float = math.nan) -> str:
    """Describe a curve in words that follow its name.

    Args:
        last: Its last value, if points are downsampled.
    """
    ends = curve.ends()
    if ends is None:
        return "has no finite value"
    (begun, start), (ended, end) = ends.first, ends.last
    end = last if math.isfinite(last) else end
    if begun == ended:
        return f"is {number(end)} at iteration {math.floor(ended + 0.5):,}"
    over = count(math.floor(ended - begun + 0.5), "iteration")
    if end == start:
        return f"stays at {number(end)} over {over}"
    verb = "falls" if end < start else "rises"
    return f"{verb} from {number(start)} to {number(end)} over {over}"


def nonfinite_remark(curve: Curve) -> str:
    """Return that values of a curve are not finite, in words that follow its name, or nothing."""
    if not curve.nonfinite:
        return ""
    first, values = f"iteration {curve.nonfinite_first:,}", count(curve.nonfinite, "value")
    ends = curve.ends()
    if ends is None or not ends.is_finite:
        return f"has not been finite since {first} ({values})"
    if curve.nonfinite == 1:
        return f"was not finite at {first} ({values})"
    return f"was not finite at times, first at {first} ({values})"


def _lines(group: MetricGroup, runs: Mapping[str, Mapping[str, Curve]]) -> list[CurveLine]:
    found = [
        (run, name, curves[name])
        for run, curves in runs.items()
        for name in group.names
        if name in curves
    ]
    if len(runs) == 1:
        return [
            CurveLine(Style(name, _COLOURS[i % len(_COLOURS)], dashed=False), curve.trace(), curve)
            for i, (_, name, curve) in enumerate(found)
        ]
    colours = {run: _COLOURS[i % len(_COLOURS)] for i, run in enumerate(runs)}
    return [
        CurveLine(Style(f"{run}: {name}", colours[run], is_validation(name)), curve.trace(), curve)
        for run, name, curve in found
    ]
