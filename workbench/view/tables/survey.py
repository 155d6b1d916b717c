"""The results of a measurement: tables and sentences, and the output of its cell."""

from __future__ import annotations

import base64
import time
from typing import Any

from workbench.core.performance.bandwidth import BandwidthSurvey, Measurement, Rate, judge, matrix
from workbench.core.performance.bandwidth import sentence as remark_sentence
from workbench.core.run.model import Run
from workbench.core.units import count, gbits, microseconds, milliseconds, size_text
from workbench.pages.protocol import SurveyMessage, TableMessage
from workbench.store import Store
from workbench.view.html import Html, element, image, join_html, sentence
from workbench.view.pictures.figure import draw_png
from workbench.view.pictures.survey_picture import can_draw, describe, draw_survey, is_mapped
from workbench.view.tables.listing import Table, table_html, table_text
from workbench.view.text import NOTHING, duration, moment

MOST_NODES = 16  # largest number of nodes shown as a matrix; of more, the slowest links are listed
SLOWEST = 8
_WEEK = 6 * 86_400.0


def find_previous(store: Store, cluster: str, found: Measurement) -> BandwidthSurvey | None:
    """Return the previous measurement between some of the same nodes."""
    ends = {(pair.source, pair.target) for pair in found.survey.pairs}
    for earlier in store.surveys.of_cluster(cluster):
        known = {(pair.source, pair.target) for pair in earlier.survey.pairs}
        if earlier.survey.time < found.survey.time and ends & known:
            return earlier.survey
    return None


def remarks(found: Measurement, earlier: BandwidthSurvey | None, now: float) -> list[str]:
    """Return the remarks, starting with the slowest link.

    Args:
        earlier: The measurement to compare with.
        now: Epoch seconds.
    """
    survey, said = found.survey, list[str]()
    if slowest := survey.slowest:
        said.append(
            f"The slowest link is from {slowest.source} to {slowest.target}: "
            f"{gbits(slowest.bandwidth)} Gbit/s, {microseconds(slowest.latency)} µs."
        )
    if len(survey.nodes) == 1:
        said.append("All ranks are on one node, so there is no link to measure.")
    for remark in judge(survey, earlier):
        said.append(remark_sentence(remark, now, weekday=_weekday(remark.since, now)))
    if earlier is not None and not any(remark.since for remark in judge(survey, earlier)):
        said.append(f"Nothing has changed since {moment(earlier.time)}.")
    return [*said, *(f"Left out: {one}" for one in found.left_out)]


def heading(found: Measurement) -> str:
    """Return the measurement's size and time, in one line."""
    nodes = count(len(found.survey.nodes), "node")
    return (
        f"{nodes} with {count(found.ranks, 'rank')}, measured {moment(found.survey.time)} "
        f"in {duration(found.seconds)}"
    )


def tables(found: Measurement) -> list[tuple[str, Table]]:
    """Return all figures, each table with its title."""
    made = [
        ("Gbit/s from each node (row) to each (column)", _links(found.survey)),
        ("Allreduce", _exchanges(found.survey)),
        ("On each node", _rates(found.rates)),
    ]
    return [(title, table) for title, table in made if table.rows]


def _links(survey: BandwidthSurvey) -> Table:
    if not survey.pairs:
        return Table((), ())
    if len(survey.nodes) > MOST_NODES:
        return _slowest(survey)
    rows = zip(survey.nodes, matrix(survey), strict=True)
    return Table(
        ("from \\ to", *survey.nodes),
        tuple((node, *(gbits(v) if v else NOTHING for v in row)) for node, row in rows),
    )


def _slowest(survey: BandwidthSurvey) -> Table:
    pairs = sorted(survey.pairs, key=lambda one: one.bandwidth)[:SLOWEST]
    rows = ((p.source, p.target, gbits(p.bandwidth), microseconds(p.latency)) for p in pairs)
    return Table(("the slowest: from", "to", "Gbit/s", "µs"), tuple(rows))


def _exchanges(survey: BandwidthSurvey) -> Table:
    rows = (
        (
            size_text(one.nbytes),
            one.algorithm,
            milliseconds(one.seconds),
            gbits(one.algbw),
            gbits(one.busbw),
        )
        for one in survey.exchanges
    )
    return Table(("size", "algorithm", "ms", "algbw, Gbit/s", "busbw, Gbit/s"), tuple(rows))


def _rates(rates: tuple[Rate, ...]) -> Table:
    rows = ((rate.node, rate.what, _rate(rate)) for rate in sorted(rates, key=_order))
    return Table(("node", "what", "rate"), tuple(rows))


def _rate(rate: Rate) -> str:
    said = f"{size_text(rate.bandwidth)}/s"
    return f"{said}, {microseconds(rate.latency)} µs" if rate.latency else said


def _order(rate: Rate) -> tuple[str, str]:
    return rate.what, rate.node


def _weekday(since: float, now: float) -> str:
    """Return the weekday of a time less than a week ago, but not today."""
    if not since or now - since > _WEEK:
        return ""
    then = time.localtime(since)
    return "" if then.tm_yday == time.localtime(now).tm_yday else time.strftime("%A", then)


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
        data = base64.b64encode(draw_png(draw_survey(found))).decode()
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
    links = _list_links(found.survey)
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
        picture=draw_png(draw_survey(found)) if with_picture and can_draw(found) else b"",
    )


def _list_links(survey: BandwidthSurvey) -> Table:
    """Return each link with its latency, which the picture lacks."""
    rows = (
        (f"{one.source} → {one.target}", gbits(one.bandwidth), microseconds(one.latency))
        for one in survey.pairs
    )
    return Table(("from → to", "Gbit/s", "µs"), tuple(rows))


def _fold_table(name: str, table: Table) -> Html:
    return element("details", element("summary", name), table_html(table))
