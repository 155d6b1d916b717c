"""Draw panels with matplotlib, without touching the user's pyplot."""

from __future__ import annotations

import io
import math
import warnings
from collections.abc import Sequence
from importlib import import_module
from typing import Any

from workbench.view import bars
from workbench.view.anatomy import NOTHING_KNOWN, Anatomy
from workbench.view.panels import Panel

LIVE_DPI = 80
FINAL_DPI = 120
# Room at the right of a live picture, so that most new points fit the axes that stand already.
_HEADROOM = 0.04
_WIDTH = 9.0  # inches
_HEIGHT = 2.9  # inches a row of axes
_COLUMNS = 2
_PALETTE = 64  # colours
_BARS_LEFT = 1.35  # inches, for the names of ranks
_FEW = 30  # points, which are marked


def warm_up() -> None:
    """Load what draws, which takes as long as many pictures, before the first one is wanted."""
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
        for line in panel.lines:
            faint = not line.style.dashed and any(other.style.dashed for other in panel.lines)
            axes.plot(
                [],
                color=line.style.colour,
                linestyle="--" if line.style.dashed else "-",
                markersize=3,
                linewidth=1.5,
                alpha=0.45 if faint else 1.0,
            )
            band = axes.fill_between([], [], [], color=line.style.colour, alpha=0.2, linewidth=0)
            self.bands.append(band)
        self.lines: list[Any] = axes.get_lines()
        axes.set_xlabel("iteration")
        axes.set_ylabel(panel.quantity, parse_math=False)
        axes.grid(alpha=0.3)
        axes.margins(x=0.02)
        axes.locator_params(nbins=6)
        names = [line.style.name.lstrip("_") for line in panel.lines]  # a leading "_" hides it
        legend = axes.legend(self.lines, names, fontsize="small", frameon=False)
        for text in legend.get_texts():
            text.set_parse_math(False)
        self.update(panel)

    def update(self, panel: Panel) -> None:
        """Take the curves of ``panel``, which has the shape of the one before."""
        for curve, band, line in zip(self.lines, self.bands, panel.lines, strict=True):
            trace = line.trace
            curve.set_data(trace.iterations, trace.mean)
            curve.set_marker("o" if len(trace.iterations) <= _FEW else "")
            band.set_data(trace.iterations, trace.low, trace.high)
            band.set_visible(trace.has_band)

    def fits(self, panel: Panel) -> bool:
        """Whether the axes show the whole of ``panel``."""
        left, right, low, high = panel.bounds
        (first, last), (bottom, top) = self.axes.get_xlim(), self.axes.get_ylim()
        return bool(first <= left and right <= last and bottom <= low and high <= top)

    def rescale(self, panel: Panel, headroom: float) -> None:
        """Have the axes show the whole of ``panel``.

        Args:
            headroom: Room at the right, as a share of the iterations so far.
        """
        left, right, low, high = panel.bounds
        right += headroom * (right - left)
        self.axes.ignore_existing_data_limits = True
        self.axes.update_datalim([(left, 0), (right, 0)], updatey=False)
        if low <= high:
            self.axes.update_datalim([(left, low), (right, high)], updatex=False)
        self.axes.autoscale_view()

    def draw(self) -> None:
        """Draw the curves alone onto what stands on the canvas."""
        for artist in (*self.bands, *self.lines):
            self.axes.draw_artist(artist)


class LivePicture:
    """A picture that is drawn again and again.

    One figure and its canvas are kept. While the curves fit the axes, only they are drawn anew;
    axes and words, which cost most, stay.
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
                for artist in (*plot.bands, *plot.lines):
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
        return _png(self._canvas)


def png(panels: Sequence[Panel], anatomy: Anatomy = NOTHING_KNOWN) -> bytes:
    """Draw ``panels`` once, to be kept, and below them where the time goes; one is needed."""
    canvas = _canvas(panels, FINAL_DPI, anatomy)[0]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a font without the glyphs of someone's metric name
        canvas.draw()
    return _png(canvas)


def save(panels: Sequence[Panel], path: str) -> None:
    """Draw ``panels`` into a file, whose suffix tells the form; at least one is needed."""
    canvas = _canvas(panels, FINAL_DPI)[0]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a font without the glyphs of someone's metric name
        canvas.figure.savefig(path)


def _canvas(
    panels: Sequence[Panel], dpi: int, anatomy: Anatomy = NOTHING_KNOWN
) -> tuple[Any, list[Plot]]:
    """Return a canvas with ``panels`` on it, not yet drawn, and the plots of each."""
    # Not by pyplot: a figure of our own is never shown twice and needs no main thread.
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    columns = min(_COLUMNS, max(1, len(panels)))
    rows = math.ceil(len(panels) / columns)
    below = bars.inches(anatomy)
    height = _HEIGHT * rows + below
    figure = Figure(figsize=(_WIDTH, height), dpi=dpi, facecolor="white")
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
        bars.draw(figure.add_axes(place), anatomy)
    return FigureCanvasAgg(figure), plots


def _png(canvas: Any) -> bytes:
    from PIL import Image

    # A palette makes the picture three times smaller, and the eye does not see it.
    pixels = bytes(canvas.buffer_rgba())
    picture = Image.frombytes("RGBA", canvas.get_width_height(), pixels).convert("RGB")
    buffer = io.BytesIO()
    picture.quantize(_PALETTE, method=Image.Quantize.FASTOCTREE).save(buffer, "png")
    return buffer.getvalue()
