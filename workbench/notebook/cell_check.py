"""Check a cell before anything is started for it."""

from __future__ import annotations

from typing import Any

from workbench.errors import InputError
from workbench.requests.wishes import check_source


def check_cell(shell: Any, cell: str, magic: str) -> str:
    """Check a cell and return its text unchanged, as the engines get it.

    Args:
        shell: The IPython shell, which transforms ``!command`` and ``%magic``.
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
    # The magic is the cell's first line, so line numbers count from there.
    check_source("\n" + transformed, "The cell", awaits=True)
    return cell
