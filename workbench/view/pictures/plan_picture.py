"""The picture of a plan: time and cost, with a line for each node type; drawn without pyplot."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from workbench.core.performance.frontier import TypeCurve
from workbench.core.units import number
from workbench.view.pictures.figure import COLOURS, INK, ink, new_figure
from workbench.view.tables.plan import MOST_CURVES, TrainingPlan, scale
from workbench.view.text import dollars, duration

_WIDTH, _HEIGHT = 9.0, 4.4  # inches
_DPI = 120
# Sizes that are labelled.
_NUMBERED = (1, 2, 4, 8, 16, 32, 64)
_ABOVE, _ABOVE_RING = 5, 9  # points
_MOST_TICKS = 9


def describe_plan(found: TrainingPlan) -> str:
    """Describe the picture in words."""
    choices = found.frontier.choices
    if not choices:
        return "no choices"
    quick, cheap = choices[0], choices[-1]
    return (
        f"time against cost of an epoch: from {duration(quick.seconds)} for "
        f"{dollars(quick.dollars)} ({quick.nodes} × {quick.type}) to {duration(cheap.seconds)} for "
        f"{dollars(cheap.dollars)} ({cheap.nodes} × {cheap.type})"
    )


def ticks(low: float, high: float) -> list[float]:
    """Return round values of a logarithmic axis: a few, so that each can be written."""
    if high < 10 * low:
        return _evenly(low, high)
    decades = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    for parts in ("125", "13", "1"):
        made = [float(f"{part}e{decade}") for decade in decades for part in parts]
        made = [value for value in made if low <= value <= high]
        if len(made) <= _MOST_TICKS:
            break
    return made


def _evenly(low: float, high: float) -> list[float]:
    """Return the multiples of the smallest round step that is wide enough."""
    finest = math.floor(math.log10((high - low) / _MOST_TICKS))
    steps = (float(f"{part}e{finest + more}") for more in (0, 1) for part in "125")
    step = next(one for one in steps if (high - low) / one < _MOST_TICKS)
    first = math.ceil(low / step - 1e-9)
    return [round(n * step, 15) for n in range(first, math.floor(high / step + 1e-9) + 1)]


def draw_plan(found: TrainingPlan) -> Any:
    """Return the figure of a plan with at least one type."""
    figure = new_figure(_WIDTH, _HEIGHT, _DPI, "tight")
    axes = figure.add_subplot()
    curves, best = found.frontier.curves[:MOST_CURVES], found.frontier.choices
    unit, size = scale([one.seconds for one in best])
    axes.plot(
        [one.seconds / size for one in best],
        [one.dollars for one in best],
        color=INK,
        alpha=0.4,
        linewidth=7,
        zorder=0,
        label="best choices (Pareto frontier)",
    )
    for colour, curve in zip(COLOURS, curves, strict=False):
        _draw(axes, curve, colour, size)
    axes.plot([], "o", color=INK, fillstyle="none", label="more nodes stop paying (number: nodes)")
    axes.margins(0.05, 0.12)
    axes.set_xlabel(f"time of an epoch, {unit}")
    axes.set_ylabel(f"cost of an epoch, {found.money}")
    axes.set_xscale("log")
    _write(axes.xaxis, axes.get_xlim())
    if all(value > 0 for curve in curves for value in curve.dollars):
        axes.set_yscale("log")
        _write(axes.yaxis, axes.get_ylim())
    axes.legend(fontsize="small", frameon=False)
    ink(axes)
    return figure


def _write(axis: Any, bounds: Sequence[float]) -> None:
    """Label only round values of an axis."""
    from matplotlib.ticker import FixedLocator, NullLocator

    axis.set_major_locator(FixedLocator(ticks(*bounds)))
    axis.set_minor_locator(NullLocator())
    axis.set_major_formatter(lambda value, place: number(value, 3))


def _draw(axes: Any, curve: TypeCurve, colour: str, size: float) -> None:
    # Beyond the fastest number of nodes a line only turns back and up.
    end = curve.sizes.index(curve.fastest) + 1
    seconds = [one / size for one in curve.seconds[:end]]
    axes.plot(
        seconds,
        curve.dollars[:end],
        color=colour,
        marker=".",
        markersize=4,
        linewidth=1.4,
        linestyle="--" if curve.guessed else "-",
        label=f"{curve.type}{' (guessed)' if curve.guessed else ''}",
    )
    stop = curve.stops if curve.gains else 0
    for nodes, time, cost in zip(curve.sizes, seconds, curve.dollars, strict=False):
        if nodes in _NUMBERED or nodes == stop:
            axes.annotate(
                str(nodes),
                (time, cost),
                (0, _ABOVE_RING if nodes == stop else _ABOVE),
                textcoords="offset points",
                ha="center",
                fontsize=8,
                fontweight="bold" if nodes == stop else "normal",
                color=colour,
            )
        if nodes == stop:
            axes.plot(time, cost, "o", color=colour, fillstyle="none", markersize=9)
