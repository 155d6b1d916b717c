"""The picture of a measurement: links as a heat map, allreduce against the link's limit."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from workbench.core.performance.bandwidth import BandwidthSurvey, Measurement, matrix
from workbench.core.units import gbits, number, percent_of, size_text
from workbench.view.pictures.figure import INK, ink, new_figure

_WIDTH, _HEIGHT = 9.0, 3.9  # inches
_DPI = 120
# Okabe and Ito's, each with its own marker, so that colour is not needed to distinguish them.
_LOOKS = (("#D55E00", "s", "-"), ("#0072B2", "o", "-"), ("#009E73", "^", "-"))
_MARK = "#D55E00"
_WRITTEN = 10  # largest number of nodes with values in the cells
_BITS = 8e-9
# Links that differ by less than this look nearly the same, because measurements vary by as much.
_LEAST_SPREAD = 0.25


def can_draw(found: Measurement) -> bool:
    """Whether there is anything to draw."""
    return bool(_choose_drawings(found.survey))


def is_mapped(survey: BandwidthSurvey) -> bool:
    """Whether there are so many links that a map of them shows more than their table."""
    return bool(survey.pairs) and len(survey.nodes) > 2


def describe(found: Measurement) -> str:
    """Describe the picture in words."""
    survey, said = found.survey, list[str]()
    if slowest := survey.slowest:
        fastest = max(survey.pairs, key=lambda one: one.bandwidth)
        said.append(
            f"links between {len(survey.nodes)} nodes from {gbits(slowest.bandwidth)} "
            f"({slowest.source} to {slowest.target}) to {gbits(fastest.bandwidth)} Gbit/s"
        )
    for way in _ways(survey):
        best = max(_exchanges_by(survey, way), key=lambda one: one.busbw)
        share = ""
        if slowest:
            share = f", {percent_of(best.busbw / slowest.bandwidth)} of the slowest link"
        said.append(
            f"allreduce by {way} reaches {gbits(best.busbw)} Gbit/s at {size_text(best.nbytes)}"
            f"{share}"
        )
    return "; ".join(said)


def draw_survey(found: Measurement) -> Any:
    """Return the figure of a measurement that has a link or an allreduce."""
    from matplotlib.layout_engine import ConstrainedLayoutEngine

    survey = found.survey
    layout = ConstrainedLayoutEngine(h_pad=0.1, w_pad=0.1)
    figure = new_figure(_WIDTH, _HEIGHT, _DPI, layout)
    wanted = _choose_drawings(survey)
    for place, draw in enumerate(wanted, 1):
        draw(figure.add_subplot(1, len(wanted), place), survey)
    return figure


def _choose_drawings(survey: BandwidthSurvey) -> list[Callable[[Any, BandwidthSurvey], None]]:
    """Return the drawing functions; two links are left to sentence and table."""
    plots = (_heat_map, is_mapped(survey)), (_curves, bool(survey.exchanges))
    return [draw for draw, there in plots if there]


def _heat_map(axes: Any, survey: BandwidthSurvey) -> None:
    from matplotlib.patches import Rectangle

    rows = [[(v or float("nan")) * _BITS for v in row] for row in matrix(survey)]
    most = max(one.bandwidth for one in survey.pairs) * _BITS
    least = min(*(pair.bandwidth * _BITS for pair in survey.pairs), (1 - _LEAST_SPREAD) * most)
    image = axes.imshow(rows, cmap="cividis", vmin=least, vmax=most)
    names, places = survey.nodes, range(len(survey.nodes))
    axes.set_xticks(places, names, rotation=45, ha="right", fontsize="small", parse_math=False)
    axes.set_yticks(places, names, fontsize="small", parse_math=False)
    axes.set_xlabel("to")
    axes.set_ylabel("from")
    if len(names) <= _WRITTEN:
        for row, values in enumerate(rows):
            for column, value in enumerate(values):
                if value == value:  # no link to itself
                    shade = "black" if value - least > 0.55 * (most - least) else "white"
                    text = number(value, 3)
                    axes.text(column, row, text, ha="center", va="center", color=shade, size=8)
    slowest = survey.slowest
    if slowest is not None:
        at = names.index(slowest.target) - 0.5, names.index(slowest.source) - 0.5
        axes.add_patch(Rectangle(at, 1, 1, fill=False, edgecolor=_MARK, linewidth=3, clip_on=False))
        said = f"slowest: {slowest.source} → {slowest.target}, {gbits(slowest.bandwidth)} Gbit/s"
        axes.set_title(said, fontsize="medium", parse_math=False)
    ink(axes, grid=False)
    ink(axes.figure.colorbar(image, ax=axes, label="Gbit/s", shrink=0.8).ax, grid=False)


def _curves(axes: Any, survey: BandwidthSurvey) -> None:
    for way, (colour, mark, line) in zip(_ways(survey), _LOOKS, strict=False):
        found = _exchanges_by(survey, way)
        names = {one.choice for one in found} - {""}
        label = f"{way} ({', '.join(sorted(names))})" if names else way
        sizes = [one.nbytes for one in found]
        values = [_BITS * one.busbw for one in found]
        axes.plot(
            sizes, values, color=colour, marker=mark, linestyle=line, markersize=4, label=label
        )
    if slowest := survey.slowest:
        limit = _BITS * slowest.bandwidth
        axes.axhline(limit, color=INK, linestyle="--", linewidth=1, label="slowest link")
    if survey.rating and survey.pairs:
        rated = _BITS * survey.rating
        axes.axhline(rated, color=INK, linestyle=":", linewidth=1.5, label="rated")
    axes.set_xscale("log")
    axes.set_ylim(bottom=0)
    places = [10**n for n in range(3, 9) if 10**n <= 2 * max(o.nbytes for o in survey.exchanges)]
    axes.set_xticks(places, [size_text(place) for place in places])
    axes.set_xlabel("size of allreduce")
    axes.set_ylabel("busbw, Gbit/s")
    # Above the axes: curves that come near their limit leave no corner free.
    axes.legend(loc="lower left", bbox_to_anchor=(0, 1), ncols=2, fontsize="x-small", frameon=False)
    ink(axes)


def _exchanges_by(survey: BandwidthSurvey, way: str) -> list[Any]:
    return [one for one in survey.exchanges if one.way == way]


def _ways(survey: BandwidthSurvey) -> Iterator[str]:
    """Yield the measured communicators, in order."""
    yield from dict.fromkeys(one.way for one in survey.exchanges)
