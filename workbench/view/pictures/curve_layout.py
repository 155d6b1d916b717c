"""Arrange curves in panels, and describe them in words; nothing is drawn here."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from workbench.core.curves.buckets import Trace
from workbench.core.curves.downsampling import Curve
from workbench.core.run.metrics import MAX_GROUPS, Group, group_names, is_validation
from workbench.view.phrase import Amount, Phrase, counted, english, phrase

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


def with_redone(panels: Sequence[Panel], redone: Mapping[int, Mapping[str, Curve]]) -> list[Panel]:
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
        english(
            curve_description(line.curve, known.get(line.style.name, math.nan)), line.style.name
        )
        for panel in panels
        for line in panel.lines
    ]
    return "; ".join(sentences) or "No curve yet"


def curve_description(curve: Curve, last: float = math.nan) -> Phrase:
    """Describe a curve in words; the argument None stands for its label.

    Args:
        last: Its last value, if points are downsampled.
    """
    ends = curve.ends()
    if ends is None:
        return phrase("%1 has no finite value", None)
    (begun, start), (ended, end) = ends.first, ends.last
    end = last if math.isfinite(last) else end
    if begun == ended:
        at = math.floor(ended + 0.5)
        return phrase("%1 is %2 at iteration %3", None, ("value", end), ("count", at))
    over = math.floor(ended - begun + 0.5)
    first: Amount = ("value", start)
    newest: Amount = ("value", end)
    width: Amount = ("count", over)
    if end < start:
        return counted(
            "%2 falls from %3 to %4 over %5 iteration",
            "%2 falls from %3 to %4 over %5 iterations",
            over, None, first, newest, width,
        )  # fmt: skip
    if end > start:
        return counted(
            "%2 rises from %3 to %4 over %5 iteration",
            "%2 rises from %3 to %4 over %5 iterations",
            over, None, first, newest, width,
        )  # fmt: skip
    return counted(
        "%2 stays at %3 over %4 iteration",
        "%2 stays at %3 over %4 iterations",
        over, None, newest, width,
    )  # fmt: skip


def nonfinite_remark(curve: Curve) -> Phrase | None:
    """Return that values of a curve are not finite; None if all are."""
    amount = curve.nonfinite
    if not amount:
        return None
    first: Amount = ("count", curve.nonfinite_first)
    count: Amount = ("count", amount)
    ends = curve.ends()
    if ends is not None and ends.is_finite:
        return counted(
            "%2 was not finite at iteration %3 (%4 value)",
            "%2 was not finite at times, first at iteration %3 (%4 values)",
            amount, None, first, count,
        )  # fmt: skip
    return counted(
        "%2 has not been finite since iteration %3 (%4 value)",
        "%2 has not been finite since iteration %3 (%4 values)",
        amount, None, first, count,
    )  # fmt: skip


def _lines(group: Group, runs: Mapping[str, Mapping[str, Curve]]) -> list[CurveLine]:
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
