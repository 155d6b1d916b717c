"""The view of a run below its cell, for pages without the extension, and its final output."""

from __future__ import annotations

import math
import time

from workbench.analysis.step_breakdown import compute_breakdown
from workbench.core.moment import is_due
from workbench.core.run.display import CLEAR
from workbench.core.run.model import Run
from workbench.errors import WorkbenchError
from workbench.notebook.cell_output import CellDisplay, InlineOutput
from workbench.notebook.live_widget import Form, LiveWidget, choose_form
from workbench.notebook.notebook_file import keep_result
from workbench.store import OutputRow, Store
from workbench.surfaces import in_notebook
from workbench.view.attempts import AttemptHeadings
from workbench.view.following import LIVE, RARE, FollowPace
from workbench.view.hang_text import hang_sentence
from workbench.view.html import join_html
from workbench.view.pictures import step_bars
from workbench.view.pictures.curve_layout import describe, panels_of
from workbench.view.pictures.curve_picture import LivePicture, warm_up
from workbench.view.run_output import bundle_of, figure_html, kept_bundle, live_bundle
from workbench.view.run_record import RunRecord
from workbench.view.transcript import Transcript

PLACE = "run"
# Limit of rank 0's output as ordinary output of the cell, which cannot be shortened later.
STREAM_CHARACTERS = 200_000
TEXT_STREAMS = ("stdout", "stderr")
# A picture takes 0.1 s of a core on which ranks may train, so those of a long run are rarer.
PICTURE_SECONDS = (10.0, 20.0, 30.0)
PICTURE_SHARE = 0.003  # of a core, at most
# Read at once, points take a third less time than a few at a time; each picture reads its own.
POINTS_SECONDS = 10.0
COUNT_SECONDS = 1.0
# A page with our extension connects within this time, and then needs no picture.
FIRST_PICTURE_SECONDS = 3.0


class RunView:
    """One run on one page.

    Args:
        run: The run to show.
        page: Where to show it.
        streams: Whether rank 0's output is ordinary output; otherwise it is redrawn like the
            others', as needed after the cell has ended.
        after: Sequence number of output that is not shown, nor what is before it.
    """

    def __init__(
        self, run: Run, page: CellDisplay, *, streams: bool = True, after: int = 0
    ) -> None:
        self.record = RunRecord(run, after=after)
        self._headings, self._heading = AttemptHeadings(run.id), ""
        self._remark = ""
        self._store: Store | None = None
        self._page = page
        self._transcript = Transcript(run.wish.name)
        self._picture = LivePicture()
        self._streams = frozenset({0}) if streams else frozenset[int]()
        self._streamed, self._room = self._streams, STREAM_CHARACTERS
        self._inline = InlineOutput(run.id, page, lambda: self._show(time.time()))
        self._shown = ""
        self._figure, self._bars, self._described = "", "", ""
        self._drawn, self._pictured, self._picture_gap = 0, 0.0, FIRST_PICTURE_SECONDS
        self._pages_counted, self._attended = -math.inf, False
        self._form = choose_form()
        self._widget: LiveWidget | None = None

    def __repr__(self) -> str:
        return f"<RunView of {self.record.run!r}>"

    @property
    def pace(self) -> FollowPace:
        """How often it is updated during a long run."""
        return LIVE if self._widget else RARE

    def read(self, store: Store, now: float) -> None:
        """Read the store, and write rank 0's output.

        Args:
            now: Epoch seconds.
        """
        self._store = store
        if is_due(self._pages_counted, now, COUNT_SECONDS):
            self._pages_counted = now
            self._attended = bool(store.open_pages(self.record.run.id, now))
        run = self.record.run.id
        seconds = LIVE.read if self._widget else POINTS_SECONDS
        for rows in self.record.read(store, now, seconds):
            self._transcript.feed_all(rows)
            for heading, pieces in self._headings.split(store, rows):
                self._heading = heading or self._heading
                own = self._add_heading([row for row in pieces if row.rank in self._streams])
                streamed = [part for row in own for part in self._limit_text(row)]
                self._inline.feed(streamed, lambda place: store.displays.find(run, place))

    def _add_heading(self, rows: list[OutputRow]) -> list[OutputRow]:
        """Return output of rank 0 after the heading of its attempt, if that is not shown yet."""
        if not (rows and self._heading):
            return rows
        text, self._heading = f"==> {self._heading} <==\n", ""
        return [rows[0]._replace(stream="stdout", text=text, place=0), *rows]

    def _limit_text(self, row: OutputRow) -> list[OutputRow]:
        """Return the output of rank 0 to append, of long text only the first part.

        If it is cut, its newest lines are in the run's own view, like the others'.
        """
        if row.stream == CLEAR:
            self._room, self._streamed = STREAM_CHARACTERS, self._streams
        if row.stream not in TEXT_STREAMS:
            return [row]
        room = self._room
        self._room -= len(row.text)
        if self._room >= 0 or room < 0:
            return [row] if room > 0 else []
        self._streamed = frozenset()
        said = f"\nworkbench: the rest is left out here; {self._transcript.whole}.\n"
        return [row._replace(text=row.text[:room]), row._replace(stream="stderr", text=said)]

    def note(self, text: str) -> None:
        """Show ``text`` after the state from now on."""
        said = in_notebook(text)
        self._remark = said.rstrip(".")
        if self._attended or self._widget:
            self._page.write("stdout", f"{said}\n")

    def draw(self, now: float) -> None:
        """Draw what is due; nothing while a page follows the run by itself.

        Args:
            now: Epoch seconds.
        """
        if not self._shown:
            self._pictured = now
            self._draw_figure(now)  # an existing run has curves already
            self._show(now)
            warm_up()  # meanwhile the cluster starts, or the first iteration runs
        elif self._attended:
            return
        elif self._widget:
            self._widget.push(now)
        elif is_due(self._pictured, now, self._picture_gap):
            begun = time.thread_time()
            if self._form is Form.WIDGET and self._store:
                self._widget = LiveWidget(self._store, self.record)
            self._draw_figure(now)
            self._show(now)
            longer = (gap for gap in PICTURE_SECONDS if gap > self._picture_gap)
            gap = next(longer, (time.thread_time() - begun) / PICTURE_SHARE)
            self._pictured, self._picture_gap = now, max(gap, self._picture_gap)
        elif self._state != self._shown:
            self._show(now)

    def finish(self, store: Store, now: float) -> None:
        """Show the final output for the saved notebook.

        Args:
            now: Epoch seconds.
        """
        self._remark = ""
        self.read(store, now)
        self._close_widget()
        bundle = bundle_of(
            store,
            self.record,
            self._transcript,
            now,
            self._streamed,
            raised=not self.shows_error and bool(self.record.run.fact.error),
        )
        self._page.show(PLACE, bundle, final=True)
        if store.open_pages(self.record.run.id, now) is not None:
            run = self.record.run
            keep_result(run.id, lambda store: kept_bundle(store, run, now))

    @property
    def shows_error(self) -> bool:
        """Whether a page follows the run by itself, and shows the failed rank's traceback."""
        return self._attended

    def give_up(self, error: WorkbenchError) -> None:
        """Show why the run is no longer followed."""
        self.note(str(error))
        self._close_widget()
        self._show(time.time())

    def _close_widget(self) -> None:
        if self._widget:
            self._widget.close()
            self._widget = None

    @property
    def _state(self) -> str:
        run = self.record.run
        leaving = [node.id for node in self.record.reclaimed]
        return (
            f"{run.fact.state} {self.record.reason} {self._remark} {hang_sentence(run)} {leaving}"
        )

    def _draw_figure(self, now: float) -> None:
        if self._store:
            self.record.read_points(self._store)
        panels = panels_of({"": self.record.curves})
        if panels and self.record.points > self._drawn:
            self._drawn = self.record.points
            self._described = describe(panels)
            self._figure = figure_html(self._picture.png(panels), self._described, "")
            if self._store:
                self._bars = step_bars.html(
                    compute_breakdown(self._store, self.record.run, now=now)
                )

    def _show(self, now: float) -> None:
        self._shown = self._state
        line = self.record.line(now, self._remark)
        output = self._transcript.html(streamed=self._streamed, final=False)
        below = join_html([self._figure, self._bars, output])
        bundle = live_bundle(self.record.run, line, below, self._described, self._streamed)
        widget, metadata = self._widget.bundle if self._widget else ({}, {})
        self._page.show(PLACE, {**bundle, **widget}, metadata)
