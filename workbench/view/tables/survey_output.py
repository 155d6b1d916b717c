"""The output of a measurement in a notebook and on a page: a picture, tables and sentences."""

from __future__ import annotations

import base64
from typing import Any

from workbench.core.performance.bandwidth import BandwidthSurvey
from workbench.core.performance.measurement import Measurement
from workbench.core.run.model import Run
from workbench.core.units import gbits, microseconds
from workbench.pages.protocol import SurveyMessage, TableMessage
from workbench.store import Store
from workbench.view.html import Html, element, image, join_html, sentence
from workbench.view.pictures.survey_picture import can_draw, describe, is_mapped, survey_png
from workbench.view.tables.listing import Table, table_html, table_text
from workbench.view.tables.survey import find_previous, heading, remarks, tables


def survey_bundle(store: Store, run: Run, found: Measurement, now: float) -> dict[str, Any]:
    """Return the results of ``run`` for a page without the extension.

    Args:
        now: Epoch seconds.
    """
    title = f"{run.wish.name}: {heading(found)}"
    said = remarks(found, find_previous(store, run.wish.cluster, found), now)
    html = [element("div", element("strong", title))]
    bundle: dict[str, Any] = {}
    if can_draw(found):
        data = base64.b64encode(survey_png(found)).decode()
        bundle["image/png"] = data
        html.append(element("figure", image(data, describe(found)), style="margin: 0"))
    html += [element("p", sentence(one)) for one in said]
    html += [_fold_table(name, table) for name, table in tables(found)]
    text = [title, *said, *(table_text(table, name) for name, table in tables(found))]
    return {**bundle, "text/html": join_html(html), "text/plain": "\n".join(text)}


def survey_message(
    store: Store, run: Run, found: Measurement, now: float, *, with_picture: bool = True
) -> SurveyMessage:
    """Return what ``run`` measured for a page.

    Args:
        now: Epoch seconds.
        with_picture: Whether the picture is not beside it already, as in a notebook.
    """
    laid = [(name, table, False) for name, table in tables(found)]
    links = _links(found.survey)
    if links.rows:
        laid.append(("Links", links, not is_mapped(found.survey)))
    return SurveyMessage(
        heading=heading(found),
        remarks=tuple(remarks(found, find_previous(store, run.wish.cluster, found), now)),
        tables=tuple(
            TableMessage(title=name, columns=table.headers, rows=table.rows, is_open=is_open)
            for name, table, is_open in laid
        ),
        description=describe(found),
        picture=survey_png(found) if with_picture and can_draw(found) else b"",
    )


def _links(survey: BandwidthSurvey) -> Table:
    """Return each link with its latency, which the picture lacks."""
    rows = (
        (f"{one.source} → {one.target}", gbits(one.bandwidth), microseconds(one.latency))
        for one in survey.pairs
    )
    return Table(("from → to", "Gbit/s", "µs"), tuple(rows))


def _fold_table(name: str, table: Table) -> Html:
    return element("details", element("summary", name), table_html(table))
