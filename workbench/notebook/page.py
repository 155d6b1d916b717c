"""Put things on the page below a cell: places that are redrawn, and text that only grows."""

from __future__ import annotations

import sys
import uuid
from collections.abc import Sequence
from html import escape
from typing import Protocol

from workbench.view.kept import Bundle
from workbench.view.listing import Table, table_html, table_text

DENSE = "workbench-dense"


class Page(Protocol):
    """Where a run is shown."""

    def show(self, place: str, bundle: Bundle, *, final: bool = False) -> None:
        """Draw ``bundle`` (MIME type to data) at ``place``, over what was there."""

    def write(self, stream: str, text: str) -> None:
        """Add text to ``stdout`` or ``stderr``."""


class NotebookPage:
    """Draws by display id, so each place keeps its position below the cell."""

    def __init__(self) -> None:
        self._places: dict[str, str] = {}

    def show(self, place: str, bundle: Bundle, *, final: bool = False) -> None:
        """Draw ``bundle`` at ``place``."""
        from IPython.display import display

        update = place in self._places
        identity = self._places.setdefault(place, uuid.uuid4().hex)
        display(dict(bundle), raw=True, display_id=identity, update=update)

    def write(self, stream: str, text: str) -> None:
        """Add text as the cell's ordinary output."""
        print(text, end="", file=sys.stderr if stream == "stderr" else sys.stdout)


class TerminalPage:
    """Shows only what a terminal can: the text, and each place once, when it is final."""

    def show(self, place: str, bundle: Bundle, *, final: bool = False) -> None:
        """Print the plain text of ``bundle`` when nothing will replace it."""
        if final and bundle.get("text/plain"):
            print(bundle["text/plain"])

    def write(self, stream: str, text: str) -> None:
        """Print ``text``."""
        print(text, end="", file=sys.stderr if stream == "stderr" else sys.stdout, flush=True)


def page_for(shell: object) -> Page:
    """Return the page that fits ``shell``."""
    from IPython.terminal.interactiveshell import TerminalInteractiveShell

    return TerminalPage() if isinstance(shell, TerminalInteractiveShell) else NotebookPage()


def paragraph(*lines: str) -> Bundle:
    """Return lines as HTML and as text."""
    return {
        "text/html": f"<p>{'<br>'.join(map(escape, lines))}</p>",
        "text/plain": "\n".join(lines),
    }


def table(table: Table, caption: str = "") -> Bundle:
    """Return a table as HTML and as text."""
    return {"text/html": table_html(table, caption), "text/plain": table_text(table, caption)}


def dense(tables: str) -> str:
    """Return tables as a widget is to show them, whose lines are as high as buttons."""
    return (
        f"<style>.{DENSE} {{ line-height: 1.4; overflow-x: auto; }} "
        f".{DENSE} td, .{DENSE} th {{ padding: 2px 10px 2px 0; text-align: left; "
        f"vertical-align: top; }} .{DENSE} caption {{ text-align: left; font-weight: bold; }}"
        f'</style><div class="{DENSE}">{tables}</div>'
    )


def stacked(parts: Sequence[Bundle]) -> Bundle:
    """Return paragraphs and tables one below the other."""
    return {
        "text/html": "".join(str(part["text/html"]) for part in parts),
        "text/plain": "\n".join(str(part["text/plain"]) for part in parts),
    }
