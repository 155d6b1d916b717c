"""Draw a sweep: its trials over their parameters, and the curves of the best ones."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from workbench.core.run.sweep import Space, SweepWish, Trial, rank_trials
from workbench.core.units import count
from workbench.store import Store
from workbench.view.pictures.figure import COLOURS, INK, draw_png, ink, new_figure
from workbench.view.sweep_record import SweepRecord

DPI = 80
MOST_PARAMETERS = 6
CURVES = 5
_WIDTH, _HEIGHT = 7.6, 2.4  # inches, of a row


def draw_record(store: Store, record: SweepRecord) -> tuple[bytes, str]:
    """Return the picture of a sweep, and what it shows in words; both empty without a best trial.

    The picture is a PNG.
    """
    sweep, best = record.sweep, rank_trials(record.sweep, record.trials)
    if not best:
        return b"", ""
    curves = {one.number: store.sweeps.curve(one.run, sweep.metric) for one in best[:CURVES]}
    said = f"the best has {sweep.metric} {best[0].value:.5g}"
    picture = sweep_png(sweep, record.trials, curves)
    return picture, f"{count(len(best), 'trial')} of {sweep.name}; {said}."


def sweep_png(
    sweep: SweepWish, trials: Sequence[Trial], curves: Mapping[int, Sequence[tuple[int, float]]]
) -> bytes:
    """Return a picture of a sweep with a trial that has finished.

    The first row has parallel coordinates, a line for each trial, and the curves of the best
    trials; the second one has the values against each parameter.

    Args:
        curves: The metric's points by the number of the trial.
    """
    ranked = rank_trials(sweep, trials)
    spaces = sweep.spaces[:MOST_PARAMETERS]
    figure = new_figure(_WIDTH, 2 * _HEIGHT, DPI, "constrained")
    grid = figure.add_gridspec(2, 2 * len(spaces))
    half = len(spaces)
    _draw_parallel(figure.add_subplot(grid[0, :half]), sweep, spaces, ranked)
    _draw_curves(figure.add_subplot(grid[0, half:]), sweep, ranked[:CURVES], curves)
    for column, (name, space) in enumerate(spaces):
        axes = figure.add_subplot(grid[1, 2 * column : 2 * column + 2])
        _draw_values(axes, name, space, ranked)
        axes.set_ylabel("" if column else sweep.metric, parse_math=False)
    return draw_png(figure, is_kept=True)


def _draw_parallel(
    axes: Any, sweep: SweepWish, spaces: Sequence[tuple[str, Space]], ranked: Sequence[Trial]
) -> None:
    values = [one.value or 0.0 for one in ranked]
    low, high = min(values), max(values)
    for place, one in reversed([*enumerate(ranked)]):
        given = dict(one.parameters)
        heights = [_height(space, given[name]) for name, space in spaces]
        heights.append((values[place] - low) / (high - low) if high > low else 0.5)
        best = place == 0
        colour = COLOURS[1] if best else COLOURS[0]
        shade = 1.0 if best else max(0.15, 0.7 * (1 - place / len(ranked)))
        axes.plot(heights, color=colour, alpha=shade, linewidth=2.0 if best else 1.0)
    names = [*(name for name, _ in spaces), sweep.metric]
    axes.set_xticks(range(len(names)), names, parse_math=False)
    axes.set_yticks([])
    for place in range(len(names)):
        axes.axvline(place, color=INK, linewidth=0.8)
    for place, (_, space) in enumerate(spaces):
        first, last = _ends(space)
        axes.text(place, -0.04, first, color=INK, fontsize=7, ha="center", va="top")
        axes.text(place, 1.02, last, color=INK, fontsize=7, ha="center", va="bottom")
    axes.text(len(spaces), -0.04, f"{low:.4g}", color=INK, fontsize=7, ha="center", va="top")
    axes.text(len(spaces), 1.02, f"{high:.4g}", color=INK, fontsize=7, ha="center", va="bottom")
    axes.set_ylim(-0.15, 1.15)
    axes.spines[["top", "right", "left", "bottom"]].set_visible(False)
    ink(axes, grid=False)


def _draw_curves(
    axes: Any,
    sweep: SweepWish,
    best: Sequence[Trial],
    curves: Mapping[int, Sequence[tuple[int, float]]],
) -> None:
    for place, one in enumerate(best):
        points = curves.get(one.number, ())
        axes.plot(
            [at for at, _ in points],
            [value for _, value in points],
            color=COLOURS[place % len(COLOURS)],
            label=f"trial {one.number}",
            linewidth=1.5 if place == 0 else 1.0,
        )
    axes.set_xlabel("iteration")
    axes.set_ylabel(sweep.metric, parse_math=False)
    axes.locator_params(nbins=5)
    axes.spines[["top", "right"]].set_visible(False)
    if best:
        axes.legend(frameon=False, fontsize=7)
    ink(axes)


def _draw_values(axes: Any, name: str, space: Space, ranked: Sequence[Trial]) -> None:
    given = [dict(one.parameters)[name] for one in ranked]
    if space.choices:
        at = [float(space.choices.index(one)) for one in given]
        axes.set_xticks(range(len(space.choices)), [f"{one}"[:12] for one in space.choices])
        axes.set_xlim(-0.5, len(space.choices) - 0.5)
    else:
        at = [float(one) for one in given]
        axes.set_xscale("log" if space.is_log else "linear")
    axes.plot(at, [one.value for one in ranked], "o", color=COLOURS[0], markersize=4, alpha=0.7)
    axes.plot(at[:1], [one.value for one in ranked[:1]], "o", color=COLOURS[1], markersize=6)
    axes.set_xlabel(name, parse_math=False)
    axes.spines[["top", "right"]].set_visible(False)
    ink(axes)


def _height(space: Space, value: Any) -> float:
    """Return where a value is on its axis, from 0 to 1."""
    if space.choices:
        return (space.choices.index(value) + 0.5) / len(space.choices)
    if space.high == space.low:
        return 0.5
    if space.is_log:
        return math.log(value / space.low) / math.log(space.high / space.low)
    return float((value - space.low) / (space.high - space.low))


def _ends(space: Space) -> tuple[str, str]:
    if space.choices:
        return f"{space.choices[0]}"[:8], f"{space.choices[-1]}"[:8]
    return f"{space.low:g}", f"{space.high:g}"
