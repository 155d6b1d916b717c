"""The style of all pictures, legible on light and dark pages, and the files of those to keep."""

from __future__ import annotations

import io
import os
import tempfile
import warnings
from pathlib import Path
from typing import Any

from workbench.errors import InputError, MachineError

# Its contrast is 4.3 to a white page, and 4.4 to JupyterLab's dark one.
INK = "#7a7a7a"
# Okabe and Ito's without yellow, which is invisible on white, and two more.
COLOURS = (
    "#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00", "#9467BD", "#8C6D31",
)  # fmt: skip
SUFFIXES = (".png", ".svg", ".pdf")
_PALETTE = 128  # colours
_GRID = 0.25


def new_figure(width: float, height: float, dpi: int, layout: Any = None) -> Any:
    """Return an empty figure with its canvas, unknown to pyplot.

    Args:
        width: In inches, as the height.
        layout: As matplotlib's ``Figure`` takes it.
    """
    # Not by pyplot, which would show the figure again and needs the main thread.
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), dpi=dpi, facecolor="none", layout=layout)
    FigureCanvasAgg(figure)
    return figure


def ink(axes: Any, *, grid: bool = True) -> None:
    """Colour everything on ``axes`` except the data; call it last."""
    axes.set_facecolor("none")
    axes.tick_params(which="both", colors=INK)
    for spine in axes.spines.values():
        spine.set_color(INK)
    for words in (axes.xaxis.label, axes.yaxis.label, axes.title):
        words.set_color(INK)
    if grid:
        axes.grid(color=INK, alpha=_GRID, linewidth=0.6)
        axes.set_axisbelow(True)
    legend = axes.get_legend()
    for words in legend.get_texts() if legend else ():
        words.set_color(INK)
        words.set_parse_math(False)


def draw_png(figure: Any, *, is_kept: bool = False) -> bytes:
    """Draw a figure, and return it as ``png_of`` does."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a font without the glyphs of someone's metric name
        figure.canvas.draw()
    return png_of(figure.canvas, is_kept=is_kept)


def png_of(canvas: Any, *, is_kept: bool = False) -> bytes:
    """Return the canvas as a small PNG with a transparent background.

    Args:
        is_kept: Whether to take some 30 ms more for a file that is a tenth smaller.
    """
    from PIL import Image

    # A palette makes the picture three times smaller without a visible difference.
    pixels = bytes(canvas.buffer_rgba())
    picture = Image.frombytes("RGBA", canvas.get_width_height(), pixels)
    buffer = io.BytesIO()
    picture.quantize(_PALETTE, method=Image.Quantize.FASTOCTREE).save(
        buffer, "png", optimize=is_kept
    )
    return buffer.getvalue()


def check_chart_path(path: Path) -> Path:
    """Check the path of a picture before anything is read.

    Raises:
        InputError: The format is not supported, or the folder is missing.
    """
    if path.suffix.lower() not in SUFFIXES:
        raise InputError(
            f"{str(path)!r} is neither PNG nor SVG", "use a name that ends in .png or .svg."
        )
    if not path.absolute().parent.is_dir():
        raise InputError(f"There is no folder {path.parent}", "make it first, or name another.")
    return path


def write_picture(path: Path, figure: Any) -> None:
    """Draw a figure into a file, which is replaced atomically; its suffix gives the format.

    Raises:
        MachineError: The file cannot be written.
    """
    try:
        handle, temporary = tempfile.mkstemp(dir=path.absolute().parent, suffix=path.suffix)
        os.close(handle)
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # as above
                figure.savefig(temporary)
            os.replace(temporary, path)
        except BaseException:
            os.unlink(temporary)
            raise
    except OSError as error:
        raise MachineError(
            f"{path} cannot be written ({error.strerror})", "choose another folder."
        ) from error
