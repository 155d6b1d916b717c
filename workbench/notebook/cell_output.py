"""The output area of a cell: places that are redrawn, and text that is appended.

Output and displays of rank 0 look as if the rank had run in this kernel. Its text is ordinary
output, which can only be appended. When the rank clears its output, the run's own view must stay:
so the cell is cleared once, if it has text, and from then on all output of the rank is in places,
which are redrawn.
"""

from __future__ import annotations

import sys
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import groupby
from typing import Any, Protocol

from workbench.core.run.display import CLEAR, DISPLAY, PLAIN, UPDATE
from workbench.store import OutputRow
from workbench.store.displays import DisplayContent
from workbench.surfaces import in_notebook
from workbench.view.html import Html, element, join_html, sentence
from workbench.view.run_output import METADATA, Bundle
from workbench.view.tables.listing import Table, table_html, table_text
from workbench.view.transcript import LineReader, notebook_bundle

TEXT_CHARACTERS = 20_000  # limit of one place, whose whole text is sent when it grows

Look = Callable[[int], DisplayContent | None]
_EMPTY: Mapping[str, Any] = {PLAIN: ""}


class CellDisplay(Protocol):
    """Where a run is shown."""

    def show(
        self, place: str, bundle: Bundle, metadata: Bundle = _EMPTY, *, final: bool = False
    ) -> None:
        """Draw ``bundle`` (MIME type to data) at ``place``, replacing its content.

        Args:
            metadata: MIME type to what a page is to know about its data.
        """

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

    def show(
        self, place: str, bundle: Bundle, metadata: Bundle = _EMPTY, *, final: bool = False
    ) -> None:
        """Draw ``bundle`` at ``place``."""
        self.put(place, bundle, metadata)

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

    def show(
        self, place: str, bundle: Bundle, metadata: Bundle = _EMPTY, *, final: bool = False
    ) -> None:
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


class InlineOutput:
    """The output and displays of one rank, on one page.

    Args:
        run: The run's id.
        page: Where to show it.
        redraw: Redraws everything that is not the rank's, at the start of the cell.
    """

    def __init__(self, run: str, page: CellDisplay, redraw: Callable[[], None]) -> None:
        self._page = page
        self._redraw = redraw
        self._own = {METADATA: {"run": run}}
        self._is_text = False  # whether there is ordinary output below the cell
        self._has_places = False  # whether text is in places, because the rank clears output
        self._used = 0  # places that are in use
        self._filled: list[bool] = []
        self._numbers: dict[int, int] = {}  # the rank's places, each with our own
        self._line: LineReader | None = None
        self._text: list[str] = []
        self._due: dict[int, tuple[Mapping[str, Any], Mapping[str, Any]]] = {}

    def feed(self, rows: Sequence[OutputRow], look: Look) -> None:
        """Show what is new.

        Args:
            look: Returns the content of a place of the rank.
        """
        clears = [at for at, row in enumerate(rows) if row.stream == CLEAR]
        if clears:
            self._clear()
            rows = rows[clears[-1] + 1 :]
        for stream, group in groupby(rows, key=lambda row: row.stream):
            pieces = [*group]
            if stream in (DISPLAY, UPDATE):
                for piece in pieces:
                    self._show(piece, look(piece.place))
            elif self._has_places:
                self._add("".join(piece.text for piece in pieces))
            else:
                self._is_text = True
                self._page.write(stream, "".join(piece.text for piece in pieces))
        self._send()

    # -- private

    def _clear(self) -> None:
        if self._is_text:
            self._page.clear()
            self._filled.clear()
            self._redraw()
        self._is_text, self._has_places = False, True
        self._used, self._line = 0, None
        self._numbers.clear()
        self._due.clear()

    def _show(self, row: OutputRow, shown: DisplayContent | None) -> None:
        if shown is None:  # it was removed meanwhile, as later rows show
            return
        if row.stream == UPDATE and row.place not in self._numbers:
            return
        if row.stream == DISPLAY:
            self._line = None
            self._numbers[row.place] = self._next()
        bundle = notebook_bundle(shown.data)
        self._due[self._numbers[row.place]] = bundle, {**shown.metadata, **self._own}
        if not self._has_places:
            self._send()  # before the text that follows it

    def _add(self, text: str) -> None:
        if self._line is None:
            self._line, self._text = LineReader(), []
            self._next()
        self._text += [f"{line}\n" for line in self._line.feed(text, TEXT_CHARACTERS)]
        whole = "".join([*self._text, self._line.partial])[-TEXT_CHARACTERS:]
        self._text = [whole.removesuffix(self._line.partial)] if self._line.partial else [whole]
        self._due[self._used - 1] = {PLAIN: whole}, self._own

    def _next(self) -> int:
        self._used += 1
        return self._used - 1

    def _send(self) -> None:
        for number, (bundle, metadata) in sorted(self._due.items()):
            self._put(number, bundle, metadata)
        self._due.clear()
        for number in range(self._used, len(self._filled)):
            if self._filled[number]:
                self._put(number, _EMPTY, self._own)
                self._filled[number] = False

    def _put(self, number: int, bundle: Mapping[str, Any], metadata: Mapping[str, Any]) -> None:
        self._filled += [False] * (number + 1 - len(self._filled))
        self._filled[number] = True
        self._page.put(f"output {number}", bundle, metadata)
