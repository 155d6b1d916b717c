"""The output of a measurement in a notebook: a picture, tables and sentences."""

from __future__ import annotations

import base64
from typing import Any

from workbench.core.performance.bandwidth import matrix
from workbench.core.performance.measurement import Measurement
from workbench.core.run.model import Run
from workbench.pages.protocol import ExchangeMessage, RateMessage, SurveyMessage
from workbench.store import Store
from workbench.view.html import Html, element, image, joined, sentence
from workbench.view.pictures.survey_picture import can_draw, describe, survey_png
from workbench.view.tables.listing import Table, table_html, table_text
from workbench.view.tables.survey import before, heading, remarks, tables


def survey_bundle(store: Store, run: Run, found: Measurement, now: float) -> dict[str, Any]:
    """Return the results of ``run`` for a page without the extension.

    Args:
        now: Epoch seconds.
    """
    title = f"{run.wish.name}: {heading(found)}"
    said = remarks(found, before(store, run.wish.cluster, found), now)
    laid = tables(found)
    html = [element("div", element("strong", title))]
    bundle: dict[str, Any] = {}
    if can_draw(found):
        data = base64.b64encode(survey_png(found)).decode()
        bundle["image/png"] = data
        html.append(element("figure", image(data, describe(found)), style="margin: 0"))
    html += [element("p", sentence(one)) for one in said]
    html += [_folded(name, table) for name, table in laid]
    text = [title, *said, *(table_text(table, name) for name, table in laid)]
    return {**bundle, "text/html": joined(html), "text/plain": "\n".join(text)}


def survey_message(store: Store, run: Run, found: Measurement, now: float) -> SurveyMessage:
    """Return what ``run`` measured for a page to draw.

    Args:
        now: Epoch seconds.
    """
    measured, slowest = found.survey, found.survey.slowest
    earlier = before(store, run.wish.cluster, found)
    place = {node: number for number, node in enumerate(measured.nodes)}
    return SurveyMessage(
        time=measured.time,
        seconds=found.seconds,
        ranks=found.ranks,
        nodes=measured.nodes,
        links=matrix(measured),
        latencies=tuple(
            (place[pair.source], place[pair.target], pair.latency) for pair in measured.pairs
        ),
        slowest=(place[slowest.source], place[slowest.target]) if slowest else None,
        rating=measured.rating,
        exchanges=tuple(
            ExchangeMessage(
                nbytes=one.nbytes,
                seconds=one.seconds,
                way=one.way,
                algorithm=one.choice,
                algbw=one.algbw,
                busbw=one.busbw,
            )
            for one in measured.exchanges
        ),
        rates=tuple(
            RateMessage(
                node=rate.node, what=rate.what, bandwidth=rate.bandwidth, latency=rate.latency
            )
            for rate in found.rates
        ),
        remarks=tuple(remarks(found, earlier, now)),
    )


def _folded(name: str, table: Table) -> Html:
    return element("details", element("summary", name), table_html(table))
