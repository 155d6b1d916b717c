"""Draw a plan: time against money, a line for each type of node, without the user's pyplot."""

from __future__ import annotations

import io
from typing import Any

from workbench.core.frontier import Curve
from workbench.view.plan import MOST_CURVES, Plan, money, span

_WIDTH, _HEIGHT = 9.0, 4.2  # inches
_DPI = 120
# Sizes that bear their number, so that a line can be read.
_NUMBERED = (1, 2, 4, 8, 16, 32, 64)


def plan_png(found: Plan) -> bytes:
    """Draw a plan with at least one type."""
    buffer = io.BytesIO()
    _figure(found).savefig(buffer, format="png")
    return buffer.getvalue()


def save_plan(found: Plan, path: str) -> None:
    """Draw a plan into a file, whose suffix tells the form."""
    _figure(found).savefig(path)


def describe_plan(found: Plan) -> str:
    """Return what the picture shows, in words."""
    choices = found.frontier.choices
    if not choices:
        return "nothing to choose from"
    quick, cheap = choices[0], choices[-1]
    return (
        f"time against money of an epoch: from {span(quick.seconds)} for "
        f"{money(quick.dollars)} ({quick.nodes} × {quick.type}) to {span(cheap.seconds)} for "
        f"{money(cheap.dollars)} ({cheap.nodes} × {cheap.type})"
    )


def _figure(found: Plan) -> Any:
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(_WIDTH, _HEIGHT), dpi=_DPI, facecolor="white", layout="tight")
    FigureCanvasAgg(figure)
    axes = figure.add_subplot()
    for number, curve in enumerate(found.frontier.curves[:MOST_CURVES]):
        _draw(axes, curve, f"C{number}")
    best = found.frontier.choices
    axes.plot(
        [one.seconds for one in best],
        [one.dollars for one in best],
        color="black",
        alpha=0.25,
        linewidth=6,
        zorder=0,
        label="nothing is both quicker and cheaper",
    )
    axes.set_xscale("log")
    axes.set_xlabel("seconds an epoch")
    axes.set_ylabel("$ an epoch")
    if all(one.dollars > 0 for one in best):
        axes.set_yscale("log")
    for axis in (axes.xaxis, axes.yaxis):
        for place in ("major", "minor"):
            getattr(axis, f"set_{place}_formatter")(_short)
    axes.grid(alpha=0.3, which="both")
    legend = axes.legend(fontsize="small", frameon=False)
    for text in legend.get_texts():
        text.set_parse_math(False)
    return figure


def _short(value: float, place: int | None = None) -> str:
    # Of a decade's lines only these are named; all of them would not fit.
    return f"{value:g}" if f"{value:e}"[0] in "125" else ""


def _draw(axes: Any, curve: Curve, colour: str) -> None:
    # Beyond the quickest size a line only turns back and up.
    end = curve.sizes.index(curve.fastest) + 1
    axes.plot(
        curve.seconds[:end],
        curve.dollars[:end],
        color=colour,
        marker=".",
        markersize=3,
        linewidth=1.2,
        linestyle="--" if curve.guessed else "-",
        label=f"{curve.type}{' (guessed)' if curve.guessed else ''}",
    )
    for nodes, seconds, cost in zip(curve.sizes[:end], curve.seconds, curve.dollars, strict=False):
        if nodes in _NUMBERED:
            axes.annotate(
                str(nodes),
                (seconds, cost),
                (0, 4),
                textcoords="offset points",
                fontsize=7,
                color=colour,
            )
    at = curve.sizes.index(curve.stops)
    if curve.gains and at < end:
        axes.plot(curve.seconds[at], curve.dollars[at], "o", color=colour, fillstyle="none")
