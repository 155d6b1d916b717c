"""Show a run below its cell: state and progress, curves, output by rank, and what is kept."""

from __future__ import annotations

import time
from collections.abc import Callable
from html import escape
from itertools import groupby
from pathlib import Path

from workbench.core.metrics import fraction_done, reported
from workbench.core.run import Run
from workbench.core.sampling import Ration
from workbench.errors import WorkbenchError
from workbench.notebook.page import RUN_TYPE, Bundle, Page, figure, figure_html
from workbench.notebook.transcript import Transcript
from workbench.store import Store
from workbench.view.panels import describe, panels_of
from workbench.view.phrases import kept_line, number, percent, step_line, summary
from workbench.view.picture import LivePicture, warm_up
from workbench.view.record import Record

HEAD_SECONDS = 1.0
DRAWING_SECONDS = 1.0
OUTPUT_SECONDS = 2.0
_EMPTY: Bundle = {"text/html": "", "text/plain": ""}


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
        self._page = page
        self._transcript = Transcript()
        self._picture = LivePicture()
        self._streamed = frozenset({0}) if streams else frozenset()
        self._heads = Ration(HEAD_SECONDS, allowance=1.0, share=0.002)
        self._drawings = Ration(DRAWING_SECONDS, allowance=0.2, share=0.006)
        self._outputs = Ration(OUTPUT_SECONDS, allowance=1.0, share=0.002)
        self._head = ""
        self._drawn = -1
        self._shown = -1

    def __repr__(self) -> str:
        return f"<RunView of {self.record.run!r}>"

    def read(self, store: Store, now: float) -> None:
        """Take in what the store has, and write rank 0's output.

        Args:
            now: Epoch seconds.
        """
        for rows in self.record.read(store, now):
            for row in rows:
                self._transcript.feed(row.rank, row.text)
            self._reserve_output_place()
            streamed = [row for row in rows if row.rank in self._streamed]
            for stream, pieces in groupby(streamed, key=lambda row: row.stream):
                self._page.write(stream, "".join(piece.text for piece in pieces))

    def note(self, text: str) -> None:
        """Have ``text`` stand behind the state from now on."""
        self._remark = text.rstrip(".")

    def draw(self, now: float) -> None:
        """Draw what has changed and is due.

        Args:
            now: Epoch seconds.
        """
        state = f"{self.record.run.fact.state} {self.record.reason} {self._remark}"
        if state != self._head or self._heads.due(now):
            self._head = state
            self._timed(self._heads, now, lambda: self._draw_head(now))
        if self._drawn < 0:
            self._reserve_places()
        if self.record.points > self._drawn and self._drawings.due(now):
            self._timed(self._drawings, now, self._draw_curves)
        written = self._transcript.written(self._hidden)
        if written > max(0, self._shown) and self._outputs.due(now):
            self._shown = written
            self._timed(self._outputs, now, self._draw_output)

    def finish(self, store: Store, now: float) -> None:
        """Leave what stays in the saved notebook.

        Args:
            now: Epoch seconds.
        """
        self._remark = ""
        self.read(store, now)
        values = store.final_values(self.record.run.id)
        self._draw_head(now)
        self._draw_output(final=True)
        self._page.show("curves", self._kept(values, store.path.parent, now), final=True)

    def give_up(self, error: WorkbenchError) -> None:
        """Show why the run is followed no longer."""
        self.note(str(error))
        self._draw_head(time.time())

    @property
    def _hidden(self) -> set[int]:
        """The ranks whose output is folded."""
        return set(self._transcript.ranks) - self._streamed

    def _timed(self, ration: Ration, now: float, draw: Callable[[], None]) -> None:
        before = time.thread_time()
        draw()
        ration.spend(now, time.thread_time() - before)

    def _draw_head(self, now: float) -> None:
        run, line = self.record.run, self.record.line(now, self._remark)
        self._page.show(
            "head",
            {"text/html": _head_html(run, line), "text/plain": f"{run.wish.name}: {line}"},
        )

    def _reserve_places(self) -> None:
        self._drawn = 0
        self._page.show("curves", self._identity("Curves appear with the first report."))
        if not self._streamed:
            # Drawn first from a thread, it would land below whichever cell is running then.
            self._page.show("output", _EMPTY)
        warm_up()

    def _draw_curves(self) -> None:
        self._drawn = self.record.points
        panels = panels_of({"": self.record.curves})
        if panels:
            words = describe(panels)
            html = figure_html(self._picture.png(panels), words, "")
            self._page.show("curves", {**self._identity(words), "text/html": html})

    def _draw_output(self, *, final: bool = False) -> None:
        html = self._transcript.html(streamed=self._streamed, final=final)
        if html:
            text = self._transcript.text(self._hidden) if final else ""
            self._page.show("output", {"text/html": html, "text/plain": text})

    def _reserve_output_place(self) -> None:
        """Have the folded output above the streamed one, which would be cut in two else."""
        if self._streamed and self._shown < 0 and self.record.run.fact.ranks > 1:
            self._shown = 0
            self._page.show("output", _EMPTY)

    def _kept(self, values: dict[str, float], folder: Path, now: float) -> Bundle:
        run, panels = self.record.run, panels_of({"": self.record.curves})
        caption, below = kept_line(run, folder), _values_html(values)
        bundle = self._identity("\n".join(summary(run, values, folder, now)))
        if not panels:
            return {**bundle, "text/html": f"<p>{escape(caption)}</p>{below}"}
        shown = figure(panels, caption)
        return {**bundle, **shown, "text/html": shown["text/html"] + below}

    def _identity(self, text: str) -> Bundle:
        wish = self.record.run.wish
        return {RUN_TYPE: {"run": wish.id, "name": wish.name}, "text/plain": text}


def _head_html(run: Run, line: str) -> str:
    done = fraction_done(run.fact)
    bar = ""
    if done is not None:
        label = escape(f"Progress of run {run.wish.name}", quote=True)
        bar = (
            f'<br><progress value="{done:.4f}" max="1" aria-label="{label}" '
            f'style="width: 24em">{percent(run.fact)}</progress> {percent(run.fact)}'
        )
    return f"<div><strong>{escape(run.wish.name)}</strong>: {escape(line)}{bar}</div>"


def _values_html(values: dict[str, float]) -> str:
    rows = "".join(
        f'<tr><th scope="row">{escape(name)}</th><td>{number(value)}</td></tr>'
        for name, value in reported(values).items()
    )
    table = f"<table><caption>Last values</caption><tbody>{rows}</tbody></table>" if rows else ""
    steps = step_line(values)
    return f"{table}<p>A step takes: {steps}</p>" if steps else table
