"""Bars of the step breakdown, one for each rank, in HTML or with matplotlib."""

from __future__ import annotations

from typing import Any

from workbench.analysis.step_breakdown import StepBreakdown
from workbench.core.performance.step_sampling import LABELS, mean_parts
from workbench.core.units import milliseconds
from workbench.view.html import Html, element, join_html, sentence, words
from workbench.view.pictures.figure import ink
from workbench.view.tables.listing import cell, frame_table, head_cell

Rows = dict[int, tuple[float, ...]]

# Okabe and Ito's, as `extension/style/run.css` has them; a hatch tells them apart in grey.
COLOURS = {
    "compute": "#0072B2",
    "waiting": "#CC79A7",
    "moving": "#E69F00",
    "communication": "#E69F00",
    "point-to-point": "#D55E00",
    "data": "#009E73",
    "other": "#999999",
}
HATCHES = {"waiting": "////"}
MOST_BARS = 16
_ROW_INCHES = 0.24
_FRAME_INCHES = 0.95


def inches(anatomy: StepBreakdown) -> float:
    """Return the height of the bars in inches; 0 without any."""
    return (
        _FRAME_INCHES + _ROW_INCHES * len(choose_rows(anatomy, MOST_BARS)) if anatomy.steps else 0.0
    )


def draw(axes: Any, anatomy: StepBreakdown) -> None:
    """Draw the bars on empty matplotlib axes."""
    rows = choose_rows(anatomy, MOST_BARS)
    names = [label(anatomy, rank) for rank in rows]
    left = [0.0] * len(rows)
    for place, part in enumerate(anatomy.parts):
        widths = [1000 * seconds[place] for seconds in rows.values()]
        axes.barh(
            range(len(rows)),
            widths,
            left=left,
            height=0.7,
            color=COLOURS[part],
            hatch=HATCHES.get(part),
            edgecolor="white",  # of the hatch
            linewidth=0,
            label=LABELS[part],
        )
        left = [a + b for a, b in zip(left, widths, strict=True)]
    axes.set_yticks(range(len(rows)), names, fontsize="small")
    for tick, rank in zip(axes.get_yticklabels(), rows, strict=True):
        tick.set_fontweight("bold" if is_marked(anatomy, rank) else "normal")
    axes.invert_yaxis()
    axes.set_xlabel("ms a step")
    axes.margins(x=0.02, y=0.02)
    axes.legend(
        ncols=len(anatomy.parts),
        loc="lower left",
        bbox_to_anchor=(0, 1),
        fontsize="small",
        frameon=False,
        borderaxespad=0.2,
    )
    ink(axes)
    axes.grid(visible=False, axis="y")


def describe(anatomy: StepBreakdown) -> str:
    """Describe the bars in words; empty without any."""
    if not anatomy.steps:
        return ""
    means = mean_parts(anatomy.steps)
    total = sum(means.values())
    said = ", ".join(
        f"{LABELS[part]} {milliseconds(took, total)} ms" for part, took in means.items()
    )
    return f"A step takes {milliseconds(total)} ms: {said}"


def html(anatomy: StepBreakdown) -> Html:
    """Return the bars and the verdict as HTML, for a page without the extension."""
    if not anatomy.steps:
        return words("")
    rows = choose_rows(anatomy, MOST_BARS)
    most = longest_bar(rows)
    made = [
        element(
            "tr",
            head_cell(label(anatomy, rank), scope="row"),
            element("td", _bar(anatomy, seconds, most), style="width: 30em"),
            cell(milliseconds(sum(seconds), most), "right"),
        )
        for rank, seconds in rows.items()
    ]
    keys = [_key(part) for part in anatomy.parts]
    caption = title(anatomy, rows)
    legend = element("div", f"{caption}: ", *keys, style="text-align: left")
    return join_html([legend, frame_table([element("tbody", *made)]), verdict_html(anatomy)])


def lines(anatomy: StepBreakdown) -> list[str]:
    """Return the time of a step and the verdict, a sentence each."""
    return [f"{describe(anatomy)}.", *anatomy.says] if anatomy.steps else [*anatomy.says]


def lines_html(anatomy: StepBreakdown) -> Html:
    """Return the same for a page."""
    return join_html(element("p", sentence(said)) for said in lines(anatomy))


def verdict_html(anatomy: StepBreakdown) -> Html:
    """Return the verdict."""
    return join_html(element("p", sentence(said)) for said in anatomy.says)


def _key(part: str) -> Html:
    style = f"border-left: 0.8em solid {COLOURS[part]}; padding-left: 0.3em; margin-right: 0.6em"
    return element("span", LABELS[part], style=style)


def _bar(anatomy: StepBreakdown, seconds: tuple[float, ...], most: float) -> Html:
    parts = [
        element(
            "span",
            title=f"{LABELS[part]} {milliseconds(took, most)} ms",
            style="display: inline-block; height: 0.8em; "
            f"width: {100 * took / most:.2f}%; background: {COLOURS[part]}",
        )
        for part, took in zip(anatomy.parts, seconds, strict=True)
    ]
    return element("div", *parts, style="white-space: nowrap; line-height: 1")


def choose_rows(anatomy: StepBreakdown, most: int) -> Rows:
    """Return the rows to draw: as many as fit, including the slowest."""
    rows = anatomy.rows
    chosen = [*rows][:most]
    if anatomy.slowest in rows and anatomy.slowest not in chosen:
        chosen[-1] = anatomy.slowest
    return {rank: rows[rank] for rank in chosen}


def longest_bar(rows: Rows) -> float:
    """Return the seconds of the longest bar."""
    return max(map(sum, rows.values()), default=0.0) or 1.0


def is_marked(anatomy: StepBreakdown, rank: int) -> bool:
    """Whether a rank is highlighted: the others wait for it."""
    return rank == anatomy.slowest and len(anatomy.steps) > 1


def label(anatomy: StepBreakdown, rank: int) -> str:
    """Return the label of a rank's bar."""
    return f"rank {rank} ▲ slowest" if is_marked(anatomy, rank) else f"rank {rank}"


def title(anatomy: StepBreakdown, rows: Rows) -> str:
    """Return the caption of the bars."""
    total = len(anatomy.steps)
    if total <= len(rows):
        return "Time of a step in ms"
    return f"Time of a step in ms, on {len(rows):,} of {total:,} ranks"
