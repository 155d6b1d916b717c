"""The terminal's two consoles: stdout for results, stderr for messages."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import click
from rich.console import Console

WIDE = 240  # columns for a file or a pipe, where lines are not folded


def output() -> Console:
    """Return the console for results."""
    console = Console(highlight=False)
    return console if console.is_terminal else Console(highlight=False, width=WIDE)


def notes() -> Console:
    """Return the console for messages."""
    return Console(stderr=True, highlight=False)


@contextmanager
def show_wait(
    what: str, *, lines: bool = False, shown_by: str = "workbench status"
) -> Iterator[Callable[[str], None]]:
    """Show the progress of a wait until it ends or is interrupted.

    Args:
        lines: Whether to print each change as a line when there is no terminal.
        shown_by: The command that shows the state after an interrupt.
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
        click.echo(f"{what}: continues in the background; `{shown_by}` shows it.", err=True)
        raise
