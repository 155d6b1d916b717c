"""Draw the curves of runs into a file."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping
from pathlib import Path

from workbench.core.sampling import Curve
from workbench.errors import InputError, MachineError, StateError
from workbench.view.panels import panels_of
from workbench.view.picture import save

SUFFIXES = (".png", ".svg", ".pdf")


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
    """Draw the curves of runs.

    Args:
        runs: Run name to its curves.
        path: The file, which is replaced as a whole.

    Raises:
        StateError: No run has reported anything.
        MachineError: The file cannot be written.
    """
    panels = panels_of(runs)
    if not panels:
        raise StateError(f"{', '.join(runs)} reported no values, so there is nothing to draw.")
    try:
        handle, temporary = tempfile.mkstemp(dir=path.absolute().parent, suffix=path.suffix)
        os.close(handle)
        try:
            save(panels, temporary)
            os.replace(temporary, path)
        except BaseException:
            os.unlink(temporary)
            raise
    except OSError as error:
        raise MachineError(
            f"{path} cannot be written ({error.strerror}); choose another folder."
        ) from error
