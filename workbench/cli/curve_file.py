"""Save a picture of the curves of runs."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path

from workbench.core.curves.downsampling import Curve
from workbench.errors import InputError, MachineError, StateError
from workbench.view.pictures.curve_layout import panels_of
from workbench.view.pictures.curve_picture import save

SUFFIXES = (".png", ".svg", ".pdf")


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
    write_picture(path, lambda temporary: save(panels, temporary))


def write_picture(path: Path, save: Callable[[str], object]) -> None:
    """Write a picture; the file is replaced atomically.

    Args:
        save: Saves the picture under the name that it is given.

    Raises:
        MachineError: The file cannot be written.
    """
    try:
        handle, temporary = tempfile.mkstemp(dir=path.absolute().parent, suffix=path.suffix)
        os.close(handle)
        try:
            save(temporary)
            os.replace(temporary, path)
        except BaseException:
            os.unlink(temporary)
            raise
    except OSError as error:
        raise MachineError(
            f"{path} cannot be written ({error.strerror})", "choose another folder."
        ) from error
