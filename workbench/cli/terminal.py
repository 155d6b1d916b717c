"""Open the terminal's two consoles: one for what was asked for, one for what we say of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import click
from rich.console import Console

WIDE = 240  # columns for a file or a pipe, where nothing is gained by folding


def output() -> Console:
    """Return the console for what was asked for."""
    console = Console(highlight=False)
    return console if console.is_terminal else Console(highlight=False, width=WIDE)


def notes() -> Console:
    """Return the console for what we say beside it."""
    return Console(stderr=True, highlight=False)


@contextmanager
def waiting(
    what: str, *, lines: bool = False, shown_by: str = "workbench status"
) -> Iterator[Callable[[str], None]]:
    """Show what is waited for, until it is there or the person leaves.

    Args:
        lines: Whether to say each change in a line where nothing can be redrawn.
        shown_by: The command that tells more after the person has left.
    """
    console = notes()
    said = ""

    def write(state: str) -> None:
        nonlocal said
        if state != said:
            said = state
            click.echo(f"{what}: {state}", err=True)

    try:
        if lines and not console.is_terminal:
            yield write
            return
        with console.status(f"{what} …") as shown:
            yield lambda state: shown.update(f"{what}: {state}")
    except KeyboardInterrupt:
        click.echo(f"{what}: goes on without you; `{shown_by}` shows it.", err=True)
        raise
