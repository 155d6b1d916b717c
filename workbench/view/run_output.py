"""The output of a cell: live while a run is active, and final for the saved notebook.

The final output needs neither this machine nor a kernel: a picture, text, and downsampled curves.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec

from workbench.analysis.step_breakdown import NOTHING_KNOWN, StepBreakdown, read_breakdown
from workbench.core.recovery.resumption import NONE
from workbench.core.run.metrics import drawn, format_left_out, fraction_done, select_reported
from workbench.core.run.model import Run, RunState
from workbench.pages.frames import FrameSeries, encode_frame
from workbench.pages.messages import (
    NO_DETAILS,
    MessageDetails,
    clock_of,
    read_details,
    run_message,
    steps_message,
)
from workbench.pages.protocol import RUN_TYPE, MarkMessage, SavedMessage, SavedRunMessage
from workbench.store import Store
from workbench.view.hang_text import hang_html, hang_lines
from workbench.view.html import Html, element, image, join_html, sentence, words
from workbench.view.pictures import step_bars
from workbench.view.pictures.curve_layout import Panel, add_redone, describe, panels_of
from workbench.view.pictures.curve_picture import png
from workbench.view.run_record import RunRecord
from workbench.view.state_line import state_line
from workbench.view.tables.listing import cell, frame_table, head_cell
from workbench.view.tables.survey import survey_bundle, survey_message
from workbench.view.text import (
    all_frames,
    kept_line,
    number,
    percent,
    summary,
)
from workbench.view.transcript import KEPT_CHARACTERS, Transcript

Bundle = Mapping[str, Any]

# Key in the metadata of a display of rank 0: its run.
METADATA = "workbench"
# Limit of all displays together: the newest are kept, a text replaces the others.
KEPT_DISPLAYS = 4_000_000
# Buckets of all curves together: 32 bytes each, in base64. With the picture, which is stored twice,
# a run takes less than 150 kB, apart from the output of its ranks.
KEPT_BUCKETS = 1_200
KEPT_REDONE = 300  # of these for all stretches that were done again


def live_bundle(
    run: Run, line: str, below: Html, description: str, streamed: frozenset[int] = frozenset()
) -> dict[str, Any]:
    """Return the live output, for a page without the extension.

    Args:
        line: The run's state.
        below: The picture and the output, in HTML.
        description: The picture's alternative text.
        streamed: Ranks whose output is on the page already.
    """
    return {
        RUN_TYPE: _encode_saved_run(run, streamed),
        "text/html": join_html([_head_html(run, line), below]),
        "text/plain": "\n".join([f"{run.wish.name}: {line}", *hang_lines(run), description]),
    }


def kept_bundle(store: Store, run: Run, now: float) -> dict[str, Any]:
    """Return the final output of ``run``, with the output of all its ranks.

    Args:
        now: Epoch seconds.
    """
    record = RunRecord(run)
    record.read_points(store)
    after = store.reports.output_tail(run.id, 0, KEPT_CHARACTERS)
    transcript = Transcript(run.wish.name, is_cut=after > 0)
    transcript.feed_all(store.reports.output(run.id, after))
    return bundle_of(store, record, transcript, now)


def bundle_of(
    store: Store,
    record: RunRecord,
    transcript: Transcript,
    now: float,
    streamed: frozenset[int] = frozenset(),
    *,
    raised: bool = False,
) -> dict[str, Any]:
    """Return the final output of the run of ``record``.

    Args:
        transcript: The output of ranks.
        now: Epoch seconds.
        streamed: Ranks whose output is on the page already.
        raised: Whether the cell's own error shows the failed rank's traceback.
    """
    if found := store.surveys.of_run(record.run.id):
        saved = msgspec.structs.replace(
            _build_saved_message(record, now),
            survey=survey_message(store, record.run, found, now, with_picture=False),
        )
        survey = survey_bundle(store, record.run, found, now)
        return {RUN_TYPE: _encode_saved_run(record.run, saved=saved), **survey}
    run = record.run
    panels = add_redone(panels_of({"": record.curves}), record.redone)
    anatomy, folder = read_breakdown(store, run), store.path.parent
    details = read_details(store, run)
    values = details.values
    written = filter(None, [transcript.text(set(transcript.ranks) - streamed)])
    saved = _build_saved_message(record, now, anatomy, details, clock_of(store, run, record.curves))
    bundle: dict[str, Any] = {
        RUN_TYPE: _encode_saved_run(run, streamed, raised=raised, saved=saved),
        "text/plain": "\n".join(
            [
                *summary(run, values, folder, now, [*hang_lines(run), *step_bars.lines(anatomy)]),
                *details.failures,
                *written,
            ]
        ),
    }
    drawn = bool(panels or anatomy.steps)
    shown = (
        figure(panels, kept_line(run, folder), anatomy, values, details.marks)
        if drawn
        else _caption(run, folder)
    )
    failed = [element("p", one) for one in details.failures]
    head = join_html(
        [_head_html(run, state_line(run, now)), *failed, "" if raised else _error_html(run)]
    )
    below = _values_html(values), step_bars.lines_html(anatomy)
    displayed = store.displays.newest(run.id, KEPT_DISPLAYS, without=streamed)
    output = transcript.html(streamed=streamed, final=True, shown=displayed)
    return {**bundle, **shown, "text/html": join_html([head, shown["text/html"], *below, output])}


def figure(
    panels: Sequence[Panel],
    caption: str,
    anatomy: StepBreakdown = NOTHING_KNOWN,
    values: Mapping[str, float] | None = None,
    marks: Sequence[MarkMessage] = (),
) -> Bundle:
    """Return a picture for saving, as PNG and as HTML.

    Args:
        anatomy: The step breakdown, drawn below the curves.
        values: The last value of every name.
        marks: Where the run continued.
    """
    drawn = png(panels, anatomy, marks)
    places = [f"iteration {one.iteration:,}: {one.text}" for one in marks]
    described = filter(None, [describe(panels, values or {}), *places, step_bars.describe(anatomy)])
    html = figure_html(drawn, "; ".join(described), caption)
    return {"image/png": base64.b64encode(drawn).decode(), "text/html": html}


def figure_html(picture: bytes, description: str, caption: str) -> Html:
    """Return the picture as a self-contained HTML figure."""
    data = base64.b64encode(picture).decode()
    shown = [image(data, description)]
    if caption:
        shown.append(element("figcaption", caption, style="text-align: left"))
    return element("figure", *shown, style="margin: 0")


def _encode_saved_run(
    run: Run,
    streamed: frozenset[int] = frozenset(),
    *,
    raised: bool = False,
    saved: SavedMessage | None = None,
) -> dict[str, Any]:
    message = SavedRunMessage(
        run=run.wish.id, name=run.wish.name, streamed=bool(streamed), raised=raised, saved=saved
    )
    kept: dict[str, Any] = msgspec.to_builtins(message)
    return kept


def _build_saved_message(
    record: RunRecord,
    now: float,
    anatomy: StepBreakdown = NOTHING_KNOWN,
    details: MessageDetails = NO_DETAILS,
    clock: tuple[tuple[int, float], ...] = (),
) -> SavedMessage:
    return SavedMessage(
        run=run_message(
            record.run,
            now,
            replace(details, snapshot=NONE),  # to resume is not offered from a file
            clock=clock,
            anatomy=anatomy,
            curves=record.curves,
            redone=record.redone,
        ),
        steps=steps_message(anatomy) if anatomy.steps else None,
        frame=_frame(record, anatomy.slowest),
    )


def _frame(record: RunRecord, slowest: int) -> bytes:
    curves = {name: record.curves[name] for name in drawn(record.curves)}
    amount = max(2, KEPT_BUCKETS // max(4, len(curves)))
    series = []
    for name, curve in curves.items():
        buckets = curve.thin(amount).buckets(marked=slowest)
        series.append(FrameSeries(name, buckets, len(curve.ranks)))
    stretches = [
        (name, attempt, found[name])
        for attempt, found in record.redone.items()
        for name in curves
        if name in found
    ]
    for name, attempt, curve in stretches:
        thin = curve.thin(max(2, KEPT_REDONE // len(stretches)))
        series.append(FrameSeries(name, thin.buckets(), len(curve.ranks), attempt))
    return encode_frame(series, points=record.points, slowest=slowest)


def _caption(run: Run, folder: Path) -> Bundle:
    """Return where a run without curves is saved; empty for a cell that only printed."""
    is_plain = run.fact.state is RunState.FINISHED
    return {"text/html": join_html([]) if is_plain else element("p", kept_line(run, folder))}


def _head_html(run: Run, line: str) -> Html:
    done, bar = fraction_done(run.fact), words("")
    if done is not None:
        meter = element(
            "progress",
            percent(run.fact),
            value=f"{done:.4f}",
            max="1",
            aria_label=f"Progress of run {run.wish.name}",
            style="width: 24em",
        )
        bar = join_html([element("br"), meter, f" {percent(run.fact)}"])
    head = element("div", element("strong", run.wish.name), ": ", sentence(line), bar)
    return join_html([head, hang_html(run)])


def _error_html(run: Run) -> Html:
    """Return the failed rank's traceback, and how to see all frames."""
    text = "\n".join([run.fact.error, all_frames(run)]).strip()
    return element("pre", text) if text else words("")


def _values_html(values: Mapping[str, float]) -> Html:
    rows = [
        element("tr", head_cell(name, scope="row"), cell(number(value), "right"))
        for name, value in select_reported(values).items()
    ]
    if others := format_left_out(values):
        rows.append(element("tr", element("td", others, colspan=2)))
    return frame_table([element("tbody", *rows)], "Last values") if rows else words("")
