"""Draw curves as a PNG, without touching the user's pyplot."""

from __future__ import annotations

import base64
import io
import math
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from importlib import import_module
from typing import Any

from workbench.core.metrics import MAX_GROUPS, Group, group_names, is_validation
from workbench.core.sampling import Curve, Trace
from workbench.notebook.phrases import count, number

LIVE_DPI = 80
FINAL_DPI = 120
_WIDTH = 9.0  # inches
_HEIGHT = 2.9  # inches a row of axes
_COLUMNS = 2
_PALETTE = 64  # colours
_COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00")  # Okabe and Ito


@dataclass(frozen=True)
class Line:
    """One curve as it is to be drawn."""

    name: str
    trace: Trace
    colour: str
    dashed: bool


@dataclass(frozen=True)
class Panel:
    """Axes and what is drawn on them."""

    quantity: str
    lines: tuple[Line, ...]


def panels_of_run(curves: Mapping[str, Curve]) -> list[Panel]:
    """Return the panels of one run: a quantity each, validation dashed."""
    return [
        Panel(group.quantity, tuple(_lines(group, {"": curves})))
        for group in group_names(curves)[:MAX_GROUPS]
    ]


def panels_of_runs(runs: Mapping[str, Mapping[str, Curve]]) -> list[Panel]:
    """Return the panels that compare runs: a quantity each, a colour a run.

    Args:
        runs: Run name to its curves.
    """
    names = {name for curves in runs.values() for name in curves}
    return [
        Panel(group.quantity, tuple(_lines(group, runs)))
        for group in group_names(names)[:MAX_GROUPS]
    ]


def warm_up() -> None:
    """Load what draws, which takes as long as many pictures, before the first one is wanted."""
    for name in ("matplotlib.figure", "matplotlib.backends.backend_agg", "PIL.Image"):
        import_module(name)


def png(panels: Sequence[Panel], dpi: int = FINAL_DPI) -> bytes:
    """Draw ``panels``; at least one is needed."""
    # Not by pyplot: a figure of our own is never shown twice and needs no main thread.
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure
    from PIL import Image

    columns = min(_COLUMNS, len(panels))
    rows = math.ceil(len(panels) / columns)
    height = _HEIGHT * rows
    figure = Figure(figsize=(_WIDTH, height), dpi=dpi, facecolor="white")
    # Margins in inches; a layout that measures every text would draw the figure twice.
    figure.subplots_adjust(
        left=0.75 / _WIDTH,
        right=1 - 0.15 / _WIDTH,
        bottom=0.5 / height,
        top=1 - 0.12 / height,
        wspace=0.26,
        hspace=0.26,
    )
    canvas: Any = FigureCanvasAgg(figure)  # whose methods matplotlib leaves without annotations
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a font without the glyphs of someone's metric name
        for position, panel in enumerate(panels, 1):
            _draw(figure.add_subplot(rows, columns, position), panel)
        canvas.draw()
    # A palette makes the picture three times smaller, and the eye does not see it.
    pixels = bytes(canvas.buffer_rgba())
    picture = Image.frombytes("RGBA", canvas.get_width_height(), pixels).convert("RGB")
    buffer = io.BytesIO()
    picture.quantize(_PALETTE, method=Image.Quantize.FASTOCTREE).save(buffer, "png")
    return buffer.getvalue()


def describe(panels: Sequence[Panel]) -> str:
    """Say in words what the picture shows, for those who do not see it."""
    sentences = [_describe(line) for panel in panels for line in panel.lines]
    return "; ".join(sentence for sentence in sentences if sentence) or "No curve yet"


def figure_html(picture: bytes, description: str, caption: str) -> str:
    """Return the picture as a figure that needs no other file."""
    data = base64.b64encode(picture).decode()
    return (
        f'<figure style="margin: 0"><img alt="{escape(description, quote=True)}" '
        f'src="data:image/png;base64,{data}" style="max-width: 100%; width: 810px">'
        f"<figcaption>{escape(caption)}</figcaption></figure>"
    )


def _lines(group: Group, runs: Mapping[str, Mapping[str, Curve]]) -> list[Line]:
    found = [
        (run, name, curves[name])
        for run, curves in runs.items()
        for name in group.names
        if name in curves
    ]
    colours = {run: _COLOURS[i % len(_COLOURS)] for i, run in enumerate(runs)}
    return [
        Line(
            name=f"{run}: {name}" if run else name,
            trace=curve.trace(),
            colour=colours[run] if run else _COLOURS[i % len(_COLOURS)],
            dashed=is_validation(name) and bool(run),
        )
        for i, (run, name, curve) in enumerate(found)
    ]


def _draw(axes, panel: Panel) -> None:  # type: ignore[no-untyped-def]  # matplotlib loads late
    for line in panel.lines:
        trace = line.trace
        few = len(trace.iterations) <= 30
        faint = not line.dashed and any(other.dashed for other in panel.lines)
        axes.plot(
            trace.iterations,
            trace.mean,
            color=line.colour,
            linestyle="--" if line.dashed else "-",
            marker="o" if few else "",
            markersize=3,
            linewidth=1.5,
            alpha=0.45 if faint else 1.0,
        )
        if trace.has_band:
            axes.fill_between(
                trace.iterations, trace.low, trace.high, color=line.colour, alpha=0.2, linewidth=0
            )
    axes.set_xlabel("iteration")
    axes.set_ylabel(panel.quantity, parse_math=False)
    axes.grid(alpha=0.3)
    axes.margins(x=0.02)
    axes.locator_params(nbins=6)
    labels = [line.name.lstrip("_") for line in panel.lines]  # a leading "_" hides an entry
    legend = axes.legend(axes.get_lines(), labels, fontsize="small", frameon=False)
    for text in legend.get_texts():
        text.set_parse_math(False)


def _describe(line: Line) -> str:
    known = [
        (iteration, value)
        for iteration, value in zip(line.trace.iterations, line.trace.mean, strict=True)
        if math.isfinite(value)
    ]
    if not known:
        return ""
    (first, start), (last, end) = known[0], known[-1]
    if first == last:
        return f"{line.name} is {number(end)} at iteration {last:.0f}"
    verb = "falls" if end < start else "rises" if end > start else "stays"
    return (
        f"{line.name} {verb} from {number(start)} to {number(end)} "
        f"over {count(round(last - first), 'iteration')}"
    )
