"""The output area of a cell: places that are redrawn, and text that is appended."""

from __future__ import annotations

import sys
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Protocol

from workbench.surfaces import in_notebook
from workbench.view.html import Html, element, join_html, sentence
from workbench.view.run_output import Bundle
from workbench.view.tables.listing import Table, table_html, table_text

DENSE = "workbench-dense"


class CellDisplay(Protocol):
    """Where a run is shown."""

    def show(self, place: str, bundle: Bundle, *, final: bool = False) -> None:
        """Draw ``bundle`` (MIME type to data) at ``place``, replacing its content."""

    def write(self, stream: str, text: str) -> None:
        """Add text to ``stdout`` or ``stderr``."""

    def put(self, place: str, bundle: Bundle, metadata: Mapping[str, Any]) -> None:
        """Draw a rank's display at ``place``, replacing its content."""

    def clear(self) -> None:
        """Clear all places and all text, when the next output is shown."""


class NotebookDisplay:
    """An output area that draws by display id, so each place keeps its position."""

    def __init__(self) -> None:
        self._places: dict[str, str] = {}

    def show(self, place: str, bundle: Bundle, *, final: bool = False) -> None:
        """Draw ``bundle`` at ``place``."""
        self.put(place, bundle, {})

    def put(self, place: str, bundle: Bundle, metadata: Mapping[str, Any]) -> None:
        """Draw ``bundle`` at ``place``."""
        from IPython.display import display

        update = place in self._places
        identity = self._places.setdefault(place, uuid.uuid4().hex)
        display(dict(bundle), metadata=dict(metadata), raw=True, display_id=identity, update=update)

    def clear(self) -> None:
        """Clear the cell's output."""
        from IPython.display import clear_output

        self._places.clear()
        clear_output(wait=True)

    def write(self, stream: str, text: str) -> None:
        """Add text as the cell's ordinary output."""
        print(text, end="", file=sys.stderr if stream == "stderr" else sys.stdout)


class TerminalDisplay:
    """An output area of a terminal: the text, and each place once, when it is final."""

    def show(self, place: str, bundle: Bundle, *, final: bool = False) -> None:
        """Print the plain text of ``bundle`` if it is final."""
        if final and bundle.get("text/plain"):
            print(bundle["text/plain"])

    def put(self, place: str, bundle: Bundle, metadata: Mapping[str, Any]) -> None:
        """Print the text of a display."""
        if bundle.get("text/plain"):
            self.write("stdout", f"{bundle['text/plain']}\n")

    def clear(self) -> None:
        """Do nothing: printed text stays."""

    def write(self, stream: str, text: str) -> None:
        """Print ``text``."""
        print(text, end="", file=sys.stderr if stream == "stderr" else sys.stdout, flush=True)


def page_for(shell: object) -> CellDisplay:
    """Return the output area for ``shell``."""
    from IPython.terminal.interactiveshell import TerminalInteractiveShell

    return TerminalDisplay() if isinstance(shell, TerminalInteractiveShell) else NotebookDisplay()


def paragraph(*lines: str) -> Bundle:
    """Return lines as HTML and as text, with magics in place of shell commands."""
    lines = tuple(map(in_notebook, lines))
    return {
        "text/html": element("p", *_break_lines(lines)),
        "text/plain": "\n".join(lines),
    }


def table(table: Table, caption: str = "") -> Bundle:
    """Return a table as HTML and as text, with magics in place of shell commands."""
    rows = tuple(tuple(map(in_notebook, row)) for row in table.rows)
    table, caption = replace(table, rows=rows), in_notebook(caption)
    return {"text/html": table_html(table, caption), "text/plain": table_text(table, caption)}


def say(sentence: str) -> None:
    """Print a sentence below the cell, with magics in place of shell commands; nothing if empty."""
    if sentence:
        print(in_notebook(sentence))


def condense(tables: Iterable[Html]) -> Html:
    """Return tables for a widget, with less line height."""
    return element("div", *tables, class_=DENSE, style="line-height: 1.4; overflow-x: auto")


def stack_parts(parts: Sequence[Bundle]) -> Bundle:
    """Return paragraphs and tables one below the other."""
    return {
        "text/html": join_html(part["text/html"] for part in parts),
        "text/plain": "\n".join(str(part["text/plain"]) for part in parts),
    }


def _break_lines(lines: Sequence[str]) -> Iterator[Html]:
    for number, line in enumerate(lines):
        if number:
            yield element("br")
        yield sentence(line)
