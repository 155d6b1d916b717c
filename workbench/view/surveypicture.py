"""Draw what was measured: links as a heat map, allreduces against the link's limit."""

from __future__ import annotations

import io
from typing import Any

from workbench.core.bandwidth import Survey, matrix
from workbench.core.measurement import Measurement
from workbench.core.size import gbits, size_text
from workbench.view.survey import ways

_WIDTH, _HEIGHT = 9.0, 3.9  # inches
_DPI = 120
# Okabe and Ito's, with a mark each, so that no colour is needed to tell them apart.
_LOOKS = (("#D55E00", "s", "-"), ("#0072B2", "o", "-"), ("#009E73", "^", "-"))
_MARK = "#D55E00"
_WRITTEN = 10  # nodes whose figures fit into the cells
_BITS = 8e-9


def survey_png(found: Measurement) -> bytes:
    """Draw a measurement that has a link or an exchange."""
    buffer = io.BytesIO()
    _figure(found.survey).savefig(buffer, format="png")
    return buffer.getvalue()


def save_survey(found: Measurement, path: str) -> None:
    """Draw a measurement into a file, whose suffix tells the form."""
    _figure(found.survey).savefig(path)


def can_draw(found: Measurement) -> bool:
    """Whether there is something to be drawn."""
    return bool(found.survey.pairs or found.survey.exchanges)


def describe(found: Measurement) -> str:
    """Say in words what the picture shows."""
    survey, said = found.survey, list[str]()
    if slowest := survey.slowest:
        fastest = max(survey.pairs, key=lambda one: one.bandwidth)
        said.append(
            f"links between {len(survey.nodes)} nodes from {gbits(slowest.bandwidth)} "
            f"({slowest.source} to {slowest.target}) to {gbits(fastest.bandwidth)} Gbit/s"
        )
    for way in ways(survey):
        best = max(_of(survey, way), key=lambda one: one.busbw)
        said.append(
            f"allreduce by {way} reaches {gbits(best.busbw)} Gbit/s at {size_text(best.nbytes)}"
        )
    return "; ".join(said)


def _figure(survey: Survey) -> Any:
    # Not by pyplot: a figure of our own is never shown twice and needs no main thread.
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure
    from matplotlib.layout_engine import ConstrainedLayoutEngine

    layout = ConstrainedLayoutEngine(h_pad=0.1, w_pad=0.1)
    figure = Figure(figsize=(_WIDTH, _HEIGHT), dpi=_DPI, facecolor="white", layout=layout)
    FigureCanvasAgg(figure)
    wanted = [
        draw for draw, there in ((_heat_map, survey.pairs), (_curves, survey.exchanges)) if there
    ]
    for place, draw in enumerate(wanted, 1):
        draw(figure.add_subplot(1, len(wanted), place), survey)
    return figure


def _heat_map(axes: Any, survey: Survey) -> None:
    from matplotlib.patches import Rectangle

    rows = [[(v or float("nan")) * _BITS for v in row] for row in matrix(survey)]
    most = max(one.bandwidth for one in survey.pairs) * _BITS
    image = axes.imshow(rows, cmap="cividis", vmin=0, vmax=most)
    names, places = survey.nodes, range(len(survey.nodes))
    axes.set_xticks(places, names, rotation=45, ha="right", fontsize="small", parse_math=False)
    axes.set_yticks(places, names, fontsize="small", parse_math=False)
    axes.set_xlabel("to")
    axes.set_ylabel("from")
    if len(names) <= _WRITTEN:
        for row, values in enumerate(rows):
            for column, value in enumerate(values):
                if value == value:  # no link to itself
                    shade = "black" if value > 0.6 * most else "white"
                    text = f"{value:.3g}"
                    axes.text(column, row, text, ha="center", va="center", color=shade, size=8)
    slowest = survey.slowest
    if slowest is not None:
        at = names.index(slowest.target) - 0.5, names.index(slowest.source) - 0.5
        axes.add_patch(Rectangle(at, 1, 1, fill=False, edgecolor=_MARK, linewidth=3, clip_on=False))
        said = f"slowest: {slowest.source} → {slowest.target}, {gbits(slowest.bandwidth)} Gbit/s"
        axes.set_title(said, fontsize="medium", color="black", parse_math=False)
    axes.figure.colorbar(image, ax=axes, label="Gbit/s", shrink=0.8)


def _curves(axes: Any, survey: Survey) -> None:
    for way, (colour, mark, line) in zip(ways(survey), _LOOKS, strict=False):
        found = _of(survey, way)
        names = {one.algorithm.partition(": ")[2] for one in found} - {""}
        label = f"{way} ({', '.join(sorted(names))})" if names else way
        sizes = [one.nbytes for one in found]
        values = [_BITS * one.busbw for one in found]
        axes.plot(
            sizes, values, color=colour, marker=mark, linestyle=line, markersize=4, label=label
        )
    if slowest := survey.slowest:
        limit = _BITS * slowest.bandwidth
        axes.axhline(limit, color="black", linestyle="--", linewidth=1, label="slowest link")
    if survey.rating and survey.pairs:
        rated = _BITS * survey.rating
        axes.axhline(rated, color="grey", linestyle=":", linewidth=1.5, label="rated")
    axes.set_xscale("log")
    axes.set_ylim(bottom=0)
    places = [10**n for n in range(3, 9) if 10**n <= 2 * max(o.nbytes for o in survey.exchanges)]
    axes.set_xticks(places, [size_text(place) for place in places])
    axes.set_xlabel("size of allreduce")
    axes.set_ylabel("busbw, Gbit/s")
    axes.grid(alpha=0.3)
    # Above the axes: curves that come near their limit leave no corner free.
    legend = axes.legend(
        loc="lower left", bbox_to_anchor=(0, 1), ncols=2, fontsize="x-small", frameon=False
    )
    for text in legend.get_texts():
        text.set_parse_math(False)


def _of(survey: Survey, way: str) -> list[Any]:
    return [one for one in survey.exchanges if one.algorithm.partition(":")[0] == way]
