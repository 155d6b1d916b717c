"""Make what stays of a measurement below a cell: a picture, tables and sentences."""

from __future__ import annotations

import base64
from html import escape
from typing import Any

from workbench.core.bandwidth import matrix
from workbench.core.measurement import Measurement
from workbench.core.run import Run
from workbench.store import Store
from workbench.view.listing import Table, table_html, table_text
from workbench.view.survey import before, heading, remarks, tables
from workbench.view.surveypicture import can_draw, describe, survey_png


def survey_bundle(store: Store, run: Run, found: Measurement, now: float) -> dict[str, Any]:
    """Return what ``run`` measured, for those who have no page that draws it.

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


def survey_message(store: Store, run: Run, found: Measurement, now: float) -> dict[str, Any]:
    """Return what ``run`` measured for a page to draw; ``extension/src/protocol.ts`` has the type.

    All but the remarks is in bytes, seconds and bytes a second.

    Args:
        now: Epoch seconds.
    """
    measured, slowest = found.survey, found.survey.slowest
    earlier = before(store, run.wish.cluster, found)
    place = {node: number for number, node in enumerate(measured.nodes)}
    return {
        "time": measured.time,
        "seconds": found.seconds,
        "ranks": found.ranks,
        "nodes": list(measured.nodes),
        "links": [list(row) for row in matrix(measured)],
        "latencies": [
            [place[pair.source], place[pair.target], pair.latency] for pair in measured.pairs
        ],
        "slowest": [place[slowest.source], place[slowest.target]] if slowest else None,
        "rating": measured.rating,
        "exchanges": [
            {
                "nbytes": one.nbytes,
                "seconds": one.seconds,
                "way": one.algorithm.partition(":")[0],
                "algorithm": one.algorithm.partition(": ")[2],
                "algbw": one.algbw,
                "busbw": one.busbw,
            }
            for one in measured.exchanges
        ],
        "rates": [
            {
                "node": rate.node,
                "what": rate.what,
                "bandwidth": rate.bandwidth,
                "latency": rate.latency,
            }
            for rate in found.rates
        ],
        "remarks": remarks(found, earlier, now),
    }


def _folded(name: str, table: Table) -> str:
    return f"<details><summary>{escape(name)}</summary>{table_html(table)}</details>"
