"""Show a run below its cell, for as long as no page does so by itself, and what is kept of it."""

from __future__ import annotations

import time
from itertools import groupby

from workbench.core.run import Run
from workbench.errors import WorkbenchError
from workbench.notebook.keeping import keep_result
from workbench.notebook.live_widget import WIDGET_TYPE, Form, LiveWidget, chosen_form
from workbench.notebook.page import Page
from workbench.store import Store
from workbench.view import bars
from workbench.view.anatomy import anatomy_of
from workbench.view.kept import bundle_of, figure_html, live_bundle
from workbench.view.panels import describe, panels_of
from workbench.view.picture import LivePicture, warm_up
from workbench.view.record import Record
from workbench.view.transcript import Transcript

PLACE = "run"
PICTURE_SECONDS = 10.0
ATTENDANCE_SECONDS = 1.0
# A page with our extension is there within this time, and then needs no picture.
FIRST_PICTURE_SECONDS = 3.0


class RunView:
    """One run on one page.

    Args:
        run: The run to show.
        page: Where to show it.
        streams: Whether rank 0's output is added as ordinary output; otherwise it is redrawn
            like that of the others, as a page must be that the prompt has left.
    """

    def __init__(self, run: Run, page: Page, *, streams: bool = True) -> None:
        self.record = Record(run)
        self._remark = ""
        self._store: Store | None = None
        self._page = page
        self._transcript = Transcript()
        self._picture = LivePicture()
        self._streamed = frozenset({0}) if streams else frozenset()
        self._shown = ""
        self._figure, self._bars, self._described = "", "", ""
        self._drawn, self._next_picture = 0, 0.0
        self._next_attendance, self._attended = 0.0, False
        self._form = chosen_form()
        self._widget: LiveWidget | None = None

    def __repr__(self) -> str:
        return f"<RunView of {self.record.run!r}>"

    def read(self, store: Store, now: float) -> None:
        """Take in what the store has, and write rank 0's output.

        Args:
            now: Epoch seconds.
        """
        self._store = store
        if now >= self._next_attendance:
            self._next_attendance = now + ATTENDANCE_SECONDS
            self._attended = bool(store.attendance(self.record.run.id, now))
        for rows in self.record.read(store, now):
            for row in rows:
                self._transcript.feed(row.rank, row.text)
            streamed = [row for row in rows if row.rank in self._streamed]
            for stream, pieces in groupby(streamed, key=lambda row: row.stream):
                self._page.write(stream, "".join(piece.text for piece in pieces))

    def note(self, text: str) -> None:
        """Have ``text`` stand behind the state from now on."""
        self._remark = text.rstrip(".")

    def draw(self, now: float) -> None:
        """Draw what is due: nothing while a page follows the run by itself.

        Args:
            now: Epoch seconds.
        """
        if not self._shown:
            self._next_picture = now + FIRST_PICTURE_SECONDS
            self._draw_figure()  # a run that is attached to has curves already
            self._show(now)
            warm_up()  # meanwhile the cluster starts, or the first iteration is on
        elif self._attended:
            return
        elif self._widget:
            self._widget.push(now)
        elif now >= self._next_picture:
            self._next_picture = now + PICTURE_SECONDS
            if self._form is Form.WIDGET and self._store:
                self._widget = LiveWidget(self._store, self.record)
            self._draw_figure()
            self._show(now)
        elif self._state != self._shown:
            self._show(now)

    def finish(self, store: Store, now: float) -> None:
        """Leave what stays in the saved notebook.

        Args:
            now: Epoch seconds.
        """
        self._remark = ""
        self.read(store, now)
        self._close_widget()
        bundle = bundle_of(store, self.record, self._transcript, now, self._streamed)
        self._page.show(PLACE, bundle, final=True)
        if store.attendance(self.record.run.id, now) is not None:
            keep_result(self.record.run.id, bundle)

    def give_up(self, error: WorkbenchError) -> None:
        """Show why the run is followed no longer."""
        self.note(str(error))
        self._close_widget()
        self._show(time.time())

    def _close_widget(self) -> None:
        if self._widget:
            self._widget.close()
            self._widget = None

    @property
    def _state(self) -> str:
        return f"{self.record.run.fact.state} {self.record.reason} {self._remark}"

    def _draw_figure(self) -> None:
        panels = panels_of({"": self.record.curves})
        if panels and self.record.points > self._drawn:
            self._drawn = self.record.points
            self._described = describe(panels)
            self._figure = figure_html(self._picture.png(panels), self._described, "")
            if self._store:
                self._bars = bars.html(anatomy_of(self._store, self.record.run))

    def _show(self, now: float) -> None:
        self._shown = self._state
        line = self.record.line(now, self._remark)
        output = self._transcript.html(streamed=self._streamed, final=False)
        below = self._figure + self._bars + output
        bundle = live_bundle(self.record.run, line, below, self._described)
        if self._widget:
            bundle[WIDGET_TYPE] = self._widget.view
        self._page.show(PLACE, bundle)
