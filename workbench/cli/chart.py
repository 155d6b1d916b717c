"""Draw the curves of runs into a file."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping
from pathlib import Path

from workbench.core.metrics import MAX_GROUPS, group_names, is_validation
from workbench.core.sampling import Curve
from workbench.errors import InputError, MachineError, StateError

SUFFIXES = (".png", ".svg", ".pdf")
_COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00")  # Okabe and Ito


def check_chart_path(path: Path) -> Path:
    """Return ``path``, or refuse it before anything is read.

    Raises:
        InputError: Its form is not one that can be drawn, or its folder is missing.
    """
    if path.suffix.lower() not in SUFFIXES:
        raise InputError(f"{str(path)!r} cannot be drawn; use a name that ends in .png or .svg.")
    if not path.absolute().parent.is_dir():
        raise InputError(f"There is no folder {path.parent}; make it first, or name another.")
    return path


def draw_chart(runs: Mapping[str, Mapping[str, Curve]], path: Path) -> None:
    """Draw one panel for each quantity, with a colour for each run and validation dashed.

    Args:
        runs: Run name to its curves.
        path: The file, which is replaced as a whole.

    Raises:
        StateError: No run has reported anything.
        MachineError: The file cannot be written.
    """
    # Not by pyplot: it looks for a display.
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    groups = group_names({name for curves in runs.values() for name in curves})[:MAX_GROUPS]
    if not groups:
        raise StateError(f"{', '.join(runs)} reported no values, so there is nothing to draw.")
    columns = min(2, len(groups))
    rows = -(-len(groups) // columns)
    figure = Figure(figsize=(4.5 * columns, 3.0 * rows), dpi=120, layout="constrained")
    FigureCanvasAgg(figure)
    for position, group in enumerate(groups, 1):
        axes = figure.add_subplot(rows, columns, position)
        lines = [(run, name) for run in runs for name in group.names if name in runs[run]]
        for index, (run, name) in enumerate(lines):
            trace = runs[run][name].trace()
            colour = list(runs).index(run) if len(runs) > 1 else index
            axes.plot(
                trace.iterations,
                trace.mean,
                color=_COLOURS[colour % len(_COLOURS)],
                linestyle="--" if is_validation(name) else "-",
                marker="o" if len(trace.iterations) <= 30 else "",
                markersize=3,
                # A leading "_" would hide the entry, and "$" would be read as mathematics.
                label=(f"{run}: {name}" if len(runs) > 1 else name).lstrip("_").replace("$", r"\$"),
            )
        axes.set_xlabel("iteration")
        axes.set_ylabel(group.quantity.replace("$", r"\$"))
        axes.grid(alpha=0.3)
        axes.legend(fontsize="small", frameon=False)
    try:
        handle, temporary = tempfile.mkstemp(dir=path.absolute().parent, suffix=path.suffix)
        os.close(handle)
        try:
            figure.savefig(temporary)
            os.replace(temporary, path)
        except BaseException:
            os.unlink(temporary)
            raise
    except OSError as error:
        raise MachineError(
            f"{path} cannot be written ({error.strerror}); choose another folder."
        ) from error
