"""Make what stays of a measurement below a cell: a picture, tables and sentences."""

from __future__ import annotations

import base64
from html import escape
from typing import Any

from workbench.core.measurement import Measurement
from workbench.core.run import Run
from workbench.store import Store
from workbench.view.listing import Table, table_html, table_text
from workbench.view.survey import before, heading, remarks, tables
from workbench.view.surveypicture import can_draw, describe, survey_png


def survey_bundle(store: Store, run: Run, found: Measurement, now: float) -> dict[str, Any]:
    """Return what ``run`` measured; no page follows it any longer.

    Args:
        now: Epoch seconds.
    """
    title = f"{run.wish.name}: {heading(found)}"
    said = remarks(found, before(store, run.wish.cluster, found), now)
    laid = tables(found)
    html = [f"<div><strong>{escape(title)}</strong></div>"]
    bundle: dict[str, Any] = {}
    if can_draw(found):
        data = base64.b64encode(survey_png(found)).decode()
        bundle["image/png"] = data
        html.append(
            f'<figure style="margin: 0"><img alt="{escape(describe(found), quote=True)}" '
            f'src="data:image/png;base64,{data}" style="max-width: 100%; width: 810px"></figure>'
        )
    html += [f"<p>{escape(sentence)}</p>" for sentence in said]
    html += [_folded(name, table) for name, table in laid]
    text = [title, *said, *(table_text(table, name) for name, table in laid)]
    return {**bundle, "text/html": "".join(html), "text/plain": "\n".join(text)}


def _folded(name: str, table: Table) -> str:
    return f"<details><summary>{escape(name)}</summary>{table_html(table)}</details>"
