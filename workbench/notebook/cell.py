"""Check a cell before anything is started for it."""

from __future__ import annotations

from typing import Any

from workbench.errors import InputError
from workbench.store.wishes import check_source


def check_cell(shell: Any, cell: str, magic: str) -> str:
    """Return the cell's text as the engines will get it, unchanged.

    Args:
        shell: The IPython shell, which knows what ``!command`` and ``%magic`` become.
        magic: The name of the cell magic, for the message.

    Raises:
        InputError: The cell is empty or is not Python; nothing was started.
    """
    if not cell.strip():
        raise InputError(f"The cell below {magic} is empty; nothing was started.")
    try:
        transformed = shell.transform_cell(cell)
    except SyntaxError:
        transformed = cell
    # The magic stands in the cell's first line, so a line number counts from there.
    check_source("\n" + transformed, "The cell")
    return cell
