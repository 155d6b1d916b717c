"""Show the output and displays of rank 0 below the cell, as if it had run in this kernel.

Text is ordinary output, which can only be appended. When a rank clears its output, the run's own
view must stay: so the cell is cleared once, if it has text, and from then on all output of the rank
is in places, which are redrawn.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import groupby
from typing import Any

from workbench.core.run.display import CLEAR, DISPLAY, PLAIN, UPDATE
from workbench.notebook.cell_output import CellDisplay
from workbench.store import OutputRow
from workbench.store.displays import DisplayContent
from workbench.view.run_output import METADATA
from workbench.view.transcript import LineReader, notebook_bundle

TEXT_CHARACTERS = 20_000  # limit of one place, whose whole text is sent when it grows

Look = Callable[[int], DisplayContent | None]
_EMPTY: Mapping[str, Any] = {PLAIN: ""}


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
