"""Make what stands below a cell: while a run goes on, and what stays in the saved notebook.

What stays needs neither this machine nor a kernel: a picture, words, and thinned curves.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any

from workbench.core.frames import Series, encode_frame
from workbench.core.metrics import fraction_done, is_clock, reported
from workbench.core.run import Run
from workbench.store import Store
from workbench.view import bars
from workbench.view.anatomy import NOTHING_KNOWN, Anatomy, anatomy_of
from workbench.view.keptsurvey import survey_bundle, survey_message
from workbench.view.messages import run_message, steps_message
from workbench.view.panels import Panel, describe, panels_of
from workbench.view.phrases import kept_line, number, percent, state_line, step_line, summary
from workbench.view.picture import png
from workbench.view.record import Record
from workbench.view.transcript import KEPT_CHARACTERS, Transcript

Bundle = Mapping[str, Any]

RUN_TYPE = "application/vnd.workbench.run+json"
# Of all curves together: 32 bytes each, in base64. With the picture, which stands there twice, a
# run stays below 100 kB, but for what its ranks wrote.
KEPT_BUCKETS = 1_200


def live_bundle(run: Run, line: str, below: str, description: str) -> dict[str, Any]:
    """Return what stands there while the run goes on, for a page that cannot follow it by itself.

    Args:
        line: Where the run stands.
        below: The picture and the output, in HTML.
        description: What the picture shows, in words.
    """
    return {
        RUN_TYPE: _identity(run),
        "text/html": _head_html(run, line) + below,
        "text/plain": f"{run.wish.name}: {line}\n{description}",
    }


def kept_bundle(store: Store, run: Run, now: float) -> dict[str, Any]:
    """Return what stays of ``run``, with the output of all its ranks.

    Args:
        now: Epoch seconds.
    """
    record, transcript = Record(run), Transcript()
    record.read_points(store)
    after = store.output_tail(run.id, 0, KEPT_CHARACTERS)
    for row in store.output(run.id, after):
        transcript.feed(row.rank, row.text)
    return bundle_of(store, record, transcript, now)


def bundle_of(
    store: Store,
    record: Record,
    transcript: Transcript,
    now: float,
    streamed: frozenset[int] = frozenset(),
) -> dict[str, Any]:
    """Return what stays of the run of ``record``.

    Args:
        transcript: What ranks wrote.
        now: Epoch seconds.
        streamed: Ranks whose output stands on the page already.
    """
    if found := store.survey(record.run.id):
        saved = _saved(record, NOTHING_KNOWN, {}, now)
        saved["survey"] = survey_message(store, record.run, found, now)
        shown = survey_bundle(store, record.run, found, now)
        return {RUN_TYPE: {**_identity(record.run), "saved": saved}, **shown}
    run, panels = record.run, panels_of({"": record.curves})
    values, folder = store.final_values(run.id), store.path.parent
    words = filter(None, [transcript.text(set(transcript.ranks) - streamed)])
    anatomy = anatomy_of(store, run)
    bundle = {
        RUN_TYPE: {**_identity(run), "saved": _saved(record, anatomy, values, now)},
        "text/plain": "\n".join([*summary(run, values, folder, now, anatomy.says), *words]),
    }
    drawn = bool(panels or anatomy.steps)
    shown = figure(panels, kept_line(run, folder), anatomy) if drawn else _caption(run, folder)
    words_html = f"{_values_html(values)}{bars.says_html(anatomy)}"
    html = f"{_head_html(run, state_line(run, now))}{shown['text/html']}{words_html}"
    return {**bundle, **shown, "text/html": html + transcript.html(streamed=streamed, final=True)}


def figure(
    panels: Sequence[Panel], caption: str, anatomy: Anatomy = NOTHING_KNOWN
) -> dict[str, str]:
    """Return a picture to be kept, as such and as HTML.

    Args:
        anatomy: Where the time of a step goes, to be drawn below the curves.
    """
    drawn = png(panels, anatomy)
    described = filter(None, [describe(panels), bars.describe(anatomy)])
    html = figure_html(drawn, "; ".join(described), caption)
    return {"image/png": base64.b64encode(drawn).decode(), "text/html": html}


def figure_html(picture: bytes, description: str, caption: str) -> str:
    """Return the picture as a figure that needs no other file."""
    data = base64.b64encode(picture).decode()
    return (
        f'<figure style="margin: 0"><img alt="{escape(description, quote=True)}" '
        f'src="data:image/png;base64,{data}" style="max-width: 100%; width: 810px">'
        f"<figcaption>{escape(caption)}</figcaption></figure>"
    )


def _identity(run: Run) -> dict[str, Any]:
    return {"run": run.wish.id, "name": run.wish.name}


def _saved(
    record: Record, anatomy: Anatomy, values: Mapping[str, float], now: float
) -> dict[str, object]:
    return {
        "run": run_message(record.run, now, values=values),
        "steps": steps_message(anatomy) if anatomy.steps else None,
        "frame": base64.b64encode(_frame(record, anatomy.slowest)).decode(),
    }


def _frame(record: Record, slowest: int) -> bytes:
    curves = {name: curve for name, curve in record.curves.items() if not is_clock(name)}
    amount = max(2, KEPT_BUCKETS // max(4, len(curves)))
    series = []
    for name, curve in curves.items():
        buckets = curve.thinned(amount).buckets(marked=slowest)
        series.append(
            Series(name, buckets, len(curve.ranks), curve.nonfinite, curve.nonfinite_first)
        )
    return encode_frame(series, points=record.points, slowest=slowest)


def _caption(run: Run, folder: Path) -> dict[str, str]:
    return {"text/html": f"<p>{escape(kept_line(run, folder))}</p>"}


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


def _values_html(values: Mapping[str, float]) -> str:
    rows = "".join(
        f'<tr><th scope="row">{escape(name)}</th><td>{number(value)}</td></tr>'
        for name, value in reported(values).items()
    )
    table = f"<table><caption>Last values</caption><tbody>{rows}</tbody></table>" if rows else ""
    steps = step_line(dict(values))
    return f"{table}<p>A step takes: {steps}</p>" if steps else table
