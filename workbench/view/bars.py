"""Show where the time of a step goes: a bar for each rank, in HTML or on matplotlib's axes."""

from __future__ import annotations

import re
from html import escape
from typing import Any

from workbench.view.anatomy import Anatomy
from workbench.view.phrases import number

# Okabe and Ito's, as `extension/style/run.css` has them; a hatch tells them apart in grey.
COLOURS = {
    "compute": "#0072B2",
    "waiting": "#CC79A7",
    "moving": "#E69F00",
    "communication": "#E69F00",
    "data": "#009E73",
    "other": "#999999",
}
HATCHES = {"waiting": "////"}
MOST_BARS = 16
_ROW_INCHES = 0.24
_FRAME_INCHES = 0.95


def shown(anatomy: Anatomy) -> dict[int, tuple[float, ...]]:
    """Return the rows that are drawn: not more than fit, the slowest among them."""
    rows = anatomy.rows
    chosen = [*rows][:MOST_BARS]
    if anatomy.slowest in rows and anatomy.slowest not in chosen:
        chosen[-1] = anatomy.slowest
    return {rank: rows[rank] for rank in chosen}


def inches(anatomy: Anatomy) -> float:
    """Return the height that the bars need in a picture; 0 where there are none."""
    return _FRAME_INCHES + _ROW_INCHES * len(shown(anatomy)) if anatomy.steps else 0.0


def label(anatomy: Anatomy, rank: int) -> str:
    """Return how a rank is named beside its bar."""
    slowest = rank == anatomy.slowest and len(anatomy.steps) > 1
    return f"rank {rank} ▲ slowest" if slowest else f"rank {rank}"


def draw(axes: Any, anatomy: Anatomy) -> None:
    """Draw the bars on empty axes of matplotlib's."""
    rows = shown(anatomy)
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
            edgecolor="white",
            linewidth=0.5,
            label=part,
        )
        left = [a + b for a, b in zip(left, widths, strict=True)]
    axes.set_yticks(range(len(rows)), names, fontsize="small")
    for tick, rank in zip(axes.get_yticklabels(), rows, strict=True):
        tick.set_fontweight("bold" if rank == anatomy.slowest else "normal")
    axes.invert_yaxis()
    axes.set_xlabel("ms a step")
    axes.margins(x=0.02, y=0.02)
    axes.grid(axis="x", alpha=0.3)
    axes.set_axisbelow(True)
    axes.legend(
        ncols=len(anatomy.parts),
        loc="lower left",
        bbox_to_anchor=(0, 1),
        fontsize="small",
        frameon=False,
        borderaxespad=0.2,
    )


def describe(anatomy: Anatomy) -> str:
    """Say in words what the bars show; nothing where there are none."""
    if not anatomy.steps:
        return ""
    rows = anatomy.rows.values()
    means = [sum(column) / len(rows) for column in zip(*rows, strict=True)]
    said = ", ".join(
        f"{part} {number(1000 * seconds)} ms"
        for part, seconds in zip(anatomy.parts, means, strict=True)
    )
    return f"A step takes: {said}"


def html(anatomy: Anatomy) -> str:
    """Return the bars and what they say, for a page that draws nothing by itself."""
    if not anatomy.steps:
        return ""
    rows = shown(anatomy)
    longest = max(map(sum, rows.values())) or 1.0
    lines = "".join(
        f'<tr><th scope="row" style="text-align: left">{label(anatomy, rank)}</th>'
        f'<td style="width: 30em">{_bar(anatomy, seconds, longest)}</td>'
        f"<td>{number(1000 * sum(seconds))} ms</td></tr>"
        for rank, seconds in rows.items()
    )
    legend = " ".join(
        f'<span style="border-left: 0.8em solid {COLOURS[part]}; padding-left: 0.3em">{part}</span>'
        for part in anatomy.parts
    )
    return (
        f"<table><caption>Time of a step: {legend}</caption><tbody>{lines}</tbody></table>"
        f"{says_html(anatomy)}"
    )


def says_html(anatomy: Anatomy) -> str:
    """Return the verdict."""
    return "".join(f"<p>{with_code(sentence)}</p>" for sentence in anatomy.says)


def with_code(sentence: str) -> str:
    """Return a sentence as HTML, with what is to be typed set apart."""
    return re.sub("`([^`]*)`", r"<code>\1</code>", escape(sentence))


def _bar(anatomy: Anatomy, seconds: tuple[float, ...], longest: float) -> str:
    spans = "".join(
        f'<span title="{part} {number(1000 * took)} ms" style="display: inline-block; '
        f'height: 0.8em; width: {100 * took / longest:.2f}%; background: {COLOURS[part]}"></span>'
        for part, took in zip(anatomy.parts, seconds, strict=True)
    )
    return f'<div style="white-space: nowrap; line-height: 1">{spans}</div>'
