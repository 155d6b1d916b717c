"""Draw panels with matplotlib, without touching the user's pyplot."""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

from workbench.analysis.step_breakdown import NOTHING_KNOWN, StepBreakdown
from workbench.core.curves import Curve
from workbench.core.run.metrics import is_share
from workbench.errors import StateError
from workbench.pages.protocol import MarkMessage
from workbench.view.pictures import step_bars
from workbench.view.pictures.curve_layout import Panel, panels_of
from workbench.view.pictures.figure import INK, draw_png, ink, new_figure, png_of, write_picture

FEW = 30  # points: shorter curves are not smoothed
REACH = 0.02  # of the curve: makes noise legible for any number of points


_MARGIN = 0.06
_CONSTANT_MARGIN = 0.1  # share of a constant, on both sides of it

LIVE_DPI = 80
FINAL_DPI = 120
# Room at the right of a live picture, so that most new points fit the present axes.
_HEADROOM = 0.04
_SIDE = 0.02  # of the iterations, at both sides
_WIDTH = 9.0  # inches
_HEIGHT = 2.9  # inches a row of axes
_COLUMNS = 2
_MARK_POINTS, _MARK_ROWS = 9, 4  # the height of a mark's text, and how many are below one another
_BARS_LEFT = 1.35  # inches, for the names of ranks
# Opacity of the raw values behind a smoothed line, and of a range behind an exact one.
_FAINT, _BAND, _FAINT_BAND = 0.3, 0.22, 0.15
_REDONE = 0.4  # opacity of what a later attempt did again


def warm_up() -> None:
    """Import matplotlib, which is slow, before the first picture is needed."""
    for name in ("matplotlib.figure", "matplotlib.backends.backend_agg", "PIL.Image"):
        import_module(name)


class Plot:
    """The curves of one panel on their axes.

    Args:
        axes: Matplotlib's, empty.
        panel: What to draw there.
    """

    def __init__(self, axes: Any, panel: Panel) -> None:
        self.axes = axes
        self.bands: list[Any] = []
        self.raws: list[Any] = []
        for line in panel.lines:
            self.raws += axes.plot([], color=line.style.colour, linewidth=0.8, alpha=_FAINT)
        for line in panel.lines:
            faint = not line.style.dashed and any(other.style.dashed for other in panel.lines)
            axes.plot(
                [],
                color=line.style.colour,
                linestyle="--" if line.style.dashed else "-",
                markersize=3,
                clip_on=False,  # a line on the edge, such as an accuracy of 1, is drawn whole
                linewidth=1.5,
                alpha=0.45 if faint else 1.0,
            )
            band = axes.fill_between([], [], [], color=line.style.colour, linewidth=0)
            self.bands.append(band)
        self.lines: list[Any] = axes.get_lines()[len(self.raws) :]
        axes.set_xlabel("iteration")
        axes.set_ylabel(panel.quantity, parse_math=False)
        axes.locator_params(nbins=6)
        axes.spines[["top", "right"]].set_visible(False)
        names = [line.style.name.lstrip("_") for line in panel.lines]  # a leading "_" hides it
        axes.legend(self.lines, names, fontsize="small", frameon=False)
        ink(axes)
        self.update(panel)

    def update(self, panel: Panel) -> None:
        """Replace the curves by those of ``panel``, which has the same shape."""
        drawn = zip(self.lines, self.raws, self.bands, panel.lines, strict=True)
        for curve, raw, band, line in drawn:
            trace = line.trace
            is_smoothed = len(trace.iterations) > FEW
            shown = smooth(trace.iterations, trace.mean) if is_smoothed else trace.mean
            curve.set_data(trace.iterations, shown)
            curve.set_linewidth(1.8 if is_smoothed else 1.5)
            curve.set_marker("" if is_smoothed else "o")
            raw.set_data(trace.iterations, trace.mean)
            raw.set_visible(is_smoothed)
            band.set_data(trace.iterations, trace.low, trace.high)
            band.set_alpha(_FAINT_BAND if is_smoothed else _BAND)
            band.set_visible(trace.has_band)

    def fits(self, panel: Panel) -> bool:
        """Whether the axes show the whole of ``panel``."""
        left, right, low, high = panel.bounds
        (first, last), (bottom, top) = self.axes.get_xlim(), self.axes.get_ylim()
        return bool(first <= left and right <= last and bottom <= low and high <= top)

    def rescale(self, panel: Panel, headroom: float) -> None:
        """Set the axes' limits to show the whole of ``panel``.

        Args:
            headroom: Room at the right, as a share of the iterations so far.
        """
        left, right, low, high = panel.bounds
        right += headroom * (right - left)
        margin = _SIDE * (right - left) or 1.0
        self.axes.set_xlim(left - margin, right + margin)
        if low <= high:
            self.axes.set_ylim(*axis_of(panel.quantity, low, high))

    def redo(self, panel: Panel) -> None:
        """Draw the stretches that later attempts did again."""
        for line in panel.lines:
            x = line.trace.iterations
            for trace in line.redone:
                own = trace.iterations
                # As far as the average of the whole curve reaches.
                reach = REACH * (x[-1] - x[0]) / max(1, own[-1] - own[0]) if len(x) > FEW else 0.0
                self.axes.plot(
                    own,
                    smooth(own, trace.mean, reach),
                    color=line.style.colour,
                    linewidth=1.2,
                    alpha=_REDONE,
                )

    def mark(self, marks: Sequence[MarkMessage]) -> None:
        """Draw lines where the run continued, and where it is to."""
        for mark in marks:
            style = ":" if mark.is_pending else "--"
            self.axes.axvline(self._at(mark), color=INK, linewidth=0.8, linestyle=style)

    def _at(self, mark: MarkMessage) -> float:
        """Return where a mark is drawn: one that is pending at the edge of the picture at most."""
        right = float(self.axes.get_xlim()[1])
        return min(mark.iteration, right) if mark.is_pending else mark.iteration

    def say(self, marks: Sequence[MarkMessage]) -> None:
        """Draw the texts of marks beside their lines, below one another."""
        left, right = self.axes.get_xlim()
        for row, mark in enumerate(marks):
            at = self._at(mark)
            is_late = at > (left + right) / 2
            self.axes.annotate(
                mark.text,
                (at, 1.0),
                xycoords=("data", "axes fraction"),
                xytext=(-3 if is_late else 3, -2 - _MARK_POINTS * (row % _MARK_ROWS)),
                textcoords="offset points",
                horizontalalignment="right" if is_late else "left",
                verticalalignment="top",
                fontsize="x-small",
                color=INK,
                parse_math=False,
            )

    @property
    def artists(self) -> tuple[Any, ...]:
        """The artists of the curves, the most important last."""
        return (*self.bands, *self.raws, *self.lines)

    def draw(self) -> None:
        """Draw only the curves onto the present canvas."""
        for artist in self.artists:
            self.axes.draw_artist(artist)


class LivePicture:
    """A picture that is redrawn repeatedly.

    One figure and its canvas are kept. While the curves fit the axes, only they are redrawn; axes
    and text, which cost most, are reused.
    """

    def __init__(self) -> None:
        self._shape: list[object] = []
        self._canvas: Any = None
        self._plots: list[Plot] = []
        self._background: Any = None

    def png(self, panels: Sequence[Panel]) -> bytes:
        """Draw ``panels``; at least one is needed."""
        shape: list[object] = [panel.shape for panel in panels]
        fresh = shape != self._shape
        if fresh:
            self._shape = shape
            self._canvas, self._plots = _canvas(panels, LIVE_DPI)
            for plot in self._plots:
                for artist in plot.artists:
                    artist.set_animated(True)  # left out when the canvas draws itself
        pairs = list(zip(self._plots, panels, strict=True))
        for plot, panel in pairs:
            plot.update(panel)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # a font without the glyphs of someone's metric name
            if fresh or not all(plot.fits(panel) for plot, panel in pairs):
                for plot, panel in pairs:
                    plot.rescale(panel, _HEADROOM)
                self._canvas.draw()
                self._background = self._canvas.copy_from_bbox(self._canvas.figure.bbox)
            else:
                self._canvas.restore_region(self._background)
            for plot in self._plots:
                plot.draw()
        return png_of(self._canvas)


def png(
    panels: Sequence[Panel],
    anatomy: StepBreakdown = NOTHING_KNOWN,
    marks: Sequence[MarkMessage] = (),
) -> bytes:
    """Draw ``panels`` once for saving, with the step breakdown below; at least one is needed.

    Stretches that were done again are faint, and have no name of their own.

    Args:
        marks: Where the run continued: lines on each panel, and texts on the first.
    """
    canvas, plots = _canvas(panels, FINAL_DPI, anatomy)
    for plot, panel in zip(plots, panels, strict=True):
        plot.redo(panel)
        plot.mark(marks)
    if plots:
        plots[0].say(marks)
    return draw_png(canvas.figure, is_kept=True)


def draw_chart(runs: Mapping[str, Mapping[str, Curve]], path: Path) -> None:
    """Draw the curves of runs.

    Args:
        runs: Run name to its curves.
        path: The file, which is replaced atomically.

    Raises:
        StateError: No run has reported anything.
        MachineError: The file cannot be written.
    """
    panels = panels_of(runs)
    if not panels:
        raise StateError(f"{', '.join(runs)} reported no values, so they have no curves.")
    write_picture(path, _canvas(panels, FINAL_DPI)[0].figure)


def _canvas(
    panels: Sequence[Panel], dpi: int, anatomy: StepBreakdown = NOTHING_KNOWN
) -> tuple[Any, list[Plot]]:
    """Return a canvas with ``panels`` on it, not yet drawn, and the plots of each."""
    columns = min(_COLUMNS, max(1, len(panels)))
    rows = math.ceil(len(panels) / columns)
    below = step_bars.inches(anatomy)
    height = _HEIGHT * rows + below
    figure = new_figure(_WIDTH, height, dpi)
    if panels:
        # Margins in inches; a layout that measures every text would draw the figure twice.
        figure.subplots_adjust(
            left=0.75 / _WIDTH,
            right=1 - 0.15 / _WIDTH,
            bottom=(0.5 + below) / height,
            top=1 - 0.12 / height,
            wspace=0.26,
            hspace=0.26,
        )
    plots = [
        Plot(figure.add_subplot(rows, columns, position), panel)
        for position, panel in enumerate(panels, 1)
    ]
    for plot, panel in zip(plots, panels, strict=True):
        plot.rescale(panel, 0.0)
    if below:
        wide, high = _WIDTH - _BARS_LEFT - 0.15, below - 0.85
        place = (_BARS_LEFT / _WIDTH, 0.5 / height, wide / _WIDTH, high / height)
        step_bars.draw(figure.add_axes(place), anatomy)
    return figure.canvas, plots


def axis_of(quantity: str, low: float, high: float) -> tuple[float, float]:
    """Return the ends of an axis that shows values from ``low`` to ``high``.

    There is a margin within the possible values: a share is between 0 and 1, or 0 and 100.
    """
    margin = _MARGIN * (high - low) or _CONSTANT_MARGIN * abs(high) or 1.0
    floor, ceiling = _possible_range(quantity, low, high)
    return max(floor, low - margin), min(ceiling, high + margin)


def _possible_range(quantity: str, low: float, high: float) -> tuple[float, float]:
    if low < 0:
        return -math.inf, math.inf
    whole = 1.0 if high <= 1 else 100.0 if high <= 100 else math.inf
    return 0.0, whole if is_share(quantity) else math.inf


def smooth(x: Sequence[float], values: Sequence[float], reach: float = REACH) -> list[float]:
    """Return the average around each point, with weights that fall exponentially to both sides.

    Args:
        x: In ascending order.
        values: Shape as ``x``; values that are not finite are kept, and have no weight.
        reach: Share of the curve over which a weight falls to 1/e; 0 smooths nothing.
    """
    if not x or not reach:
        return list(values)
    distance = reach * (x[-1] - x[0]) or 1.0
    known = [i for i, value in enumerate(values) if math.isfinite(value)]
    smoothed = list(values)
    sums, weights = [0.0] * len(values), [0.0] * len(values)
    for order in (known, known[::-1]):
        for i, total, amount in _weighted_sums(order, x, values, distance):
            sums[i] += total
            weights[i] += amount
    for i in known:
        smoothed[i] = (sums[i] + values[i]) / (weights[i] + 1)
    return smoothed


def _weighted_sums(
    order: Sequence[int], x: Sequence[float], values: Sequence[float], reach: float
) -> Iterator[tuple[int, float, float]]:
    """Yield for each point the weighted sum of those before it, and their weights."""
    total = amount = 0.0
    last = x[order[0]] if order else 0.0
    for i in order:
        kept = math.exp(-abs(x[i] - last) / reach) if amount else 0.0
        total, amount, last = kept * total, kept * amount, x[i]
        yield i, total, amount
        total, amount = total + values[i], amount + 1
