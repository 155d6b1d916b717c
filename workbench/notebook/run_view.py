"""Show a run below its cell: state and progress, curves, output by rank, and what is kept."""

from __future__ import annotations

import base64
import time
from collections.abc import Callable
from html import escape
from itertools import groupby
from pathlib import Path

from workbench.core.metrics import fraction_done, reported
from workbench.core.run import Run
from workbench.core.sampling import Ration
from workbench.notebook import chart
from workbench.notebook.page import RUN_TYPE, Bundle, Page
from workbench.notebook.phrases import number, percent, state_line, step_line, values_line
from workbench.notebook.record import Record
from workbench.notebook.waiting import reason
from workbench.store import Store

HEAD_SECONDS = 1.0
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
        self.remark = ""
        self._page = page
        self._streamed = frozenset({0}) if streams else frozenset()
        self._heads = Ration(HEAD_SECONDS, allowance=1.0, share=0.002)
        self._drawings = Ration(1.0, allowance=0.3, share=0.01)
        self._outputs = Ration(OUTPUT_SECONDS, allowance=1.0, share=0.002)
        self._head = ""
        self._drawn = -1
        self._shown = -1

    def __repr__(self) -> str:
        return f"<RunView of {self.record.run!r}>"

    def read(self, store: Store) -> None:
        """Take in what the store has, and write rank 0's output."""
        for rows in self.record.read(store):
            self._reserve_output_place()
            streamed = [row for row in rows if row.rank in self._streamed]
            for stream, pieces in groupby(streamed, key=lambda row: row.stream):
                self._page.write(stream, "".join(piece.text for piece in pieces))

    def draw(self, now: float) -> None:
        """Draw what has changed and is due.

        Args:
            now: Epoch seconds.
        """
        state = f"{self.record.run.fact.state} {reason(self.record)} {self.remark}"
        if state != self._head or self._heads.due(now):
            self._head = state
            self._timed(self._heads, now, lambda: self._draw_head(now))
        if self._drawn < 0:
            self._reserve_places()
        if self.record.points > self._drawn and self._drawings.due(now):
            self._timed(self._drawings, now, self._draw_curves)
        hidden = set(self.record.transcript.ranks) - self._streamed
        written = self.record.transcript.written(hidden)
        if written > max(0, self._shown) and self._outputs.due(now):
            self._shown = written
            self._timed(self._outputs, now, self._draw_output)

    def finish(self, store: Store, now: float) -> None:
        """Leave what stays in the saved notebook.

        Args:
            now: Epoch seconds.
        """
        self.read(store)
        values = store.final_values(self.record.run.id)
        self._draw_head(now)
        self._draw_output(final=True)
        self._page.show("curves", self._kept(values, folder(store), now), final=True)

    def _timed(self, ration: Ration, now: float, draw: Callable[[], None]) -> None:
        before = time.thread_time()
        draw()
        ration.spend(now, time.thread_time() - before)

    def _draw_head(self, now: float) -> None:
        run = self.record.run
        line = state_line(run, now, self.remark or reason(self.record))
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
        chart.warm_up()

    def _draw_curves(self) -> None:
        self._drawn = self.record.points
        panels = chart.panels_of_run(self.record.curves)
        if panels:
            words = chart.describe(panels)
            html = chart.figure_html(chart.png(panels, chart.LIVE_DPI), words, "")
            self._page.show("curves", {**self._identity(words), "text/html": html})

    def _draw_output(self, *, final: bool = False) -> None:
        html = self.record.transcript.html(streamed=self._streamed, final=final)
        hidden = set(self.record.transcript.ranks) - self._streamed
        if html:
            text = self.record.transcript.text(hidden)
            self._page.show("output", {"text/html": html, "text/plain": text if final else ""})

    def _reserve_output_place(self) -> None:
        """Have the folded output above the streamed one, which would be cut in two else."""
        if self._streamed and self._shown < 0 and self.record.run.fact.ranks > 1:
            self._shown = 0
            self._page.show("output", _EMPTY)

    def _kept(self, values: dict[str, float], home: str, now: float) -> Bundle:
        run = self.record.run
        panels = chart.panels_of_run(self.record.curves)
        summary = summary_text(run, values, home, now)
        bundle = self._identity(summary)
        caption = kept_line(run, home)
        table = _values_html(values)
        if not panels:
            return {**bundle, "text/html": f"<p>{escape(caption)}</p>{table}"}
        picture = chart.png(panels)
        return {
            **bundle,
            "image/png": base64.b64encode(picture).decode(),
            "text/html": chart.figure_html(picture, chart.describe(panels), caption) + table,
        }

    def _identity(self, text: str) -> Bundle:
        wish = self.record.run.wish
        return {RUN_TYPE: {"run": wish.id, "name": wish.name}, "text/plain": text}


def summary_text(run: Run, values: dict[str, float], home: str, now: float) -> str:
    """Return what is to be known of a run when no picture can be shown.

    Args:
        values: The last value of every name.
        home: The folder in which the run is kept.
        now: Epoch seconds.
    """
    lines = [f"Run {run.wish.name}: {state_line(run, now)}"]
    if values:
        lines.append(f"Last values: {values_line(values)}")
    if step_line(values):
        lines.append(f"A step takes: {step_line(values)}")
    return "\n".join([*lines, kept_line(run, home)])


def kept_line(run: Run, home: str) -> str:
    """Return where the run can be found later."""
    return f"Kept as {run.id} in {home}"


def folder(store: Store) -> str:
    """Return the folder in which ``store`` keeps everything, as a person writes it."""
    path = store.path.parent
    home = Path.home()
    return f"~/{path.relative_to(home)}" if path.is_relative_to(home) else str(path)


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
