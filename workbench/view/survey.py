"""Lay out what was measured on a cluster as tables and sentences."""

from __future__ import annotations

import time
from collections.abc import Iterator

from workbench.core.bandwidth import Survey, judge, matrix, sentence
from workbench.core.measurement import Measurement, Rate
from workbench.core.size import gbits, size_text
from workbench.store import Store
from workbench.view.listing import NOTHING, Table
from workbench.view.phrases import count, duration, moment

MOST_NODES = 16  # that make a matrix; of more the slowest links are listed
SLOWEST = 8
_WEEK = 6 * 86_400.0
_BITS = 8e-9


def before(store: Store, cluster: str, found: Measurement) -> Survey | None:
    """Return what was measured last between some of the same nodes."""
    ends = {(pair.source, pair.target) for pair in found.survey.pairs}
    for earlier in store.surveys(cluster):
        known = {(pair.source, pair.target) for pair in earlier.survey.pairs}
        if earlier.survey.time < found.survey.time and ends & known:
            return earlier.survey
    return None


def remarks(found: Measurement, earlier: Survey | None, now: float) -> list[str]:
    """Return what there is to say, the slowest link first.

    Args:
        earlier: What is compared with.
        now: Epoch seconds.
    """
    survey, said = found.survey, list[str]()
    if slowest := survey.slowest:
        said.append(
            f"The slowest link is from {slowest.source} to {slowest.target}: "
            f"{gbits(slowest.bandwidth)} Gbit/s, {1e6 * slowest.latency:.0f} µs."
        )
    if len(survey.nodes) == 1:
        said.append("All ranks are on one node, so there is no link to measure.")
    for remark in judge(survey, earlier):
        said.append(sentence(remark, now, weekday=_weekday(remark.since, now)))
    if earlier is not None and not any(remark.since for remark in judge(survey, earlier)):
        said.append(f"Nothing has changed since {moment(earlier.time)}.")
    return [*said, *(f"Left out: {one}" for one in found.left_out)]


def heading(found: Measurement) -> str:
    """Return what was measured when, in one line."""
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


def _links(survey: Survey) -> Table:
    if not survey.pairs:
        return Table((), ())
    if len(survey.nodes) > MOST_NODES:
        return _slowest(survey)
    rows = zip(survey.nodes, matrix(survey), strict=True)
    return Table(
        ("from \\ to", *survey.nodes),
        tuple((node, *(gbits(v) if v else NOTHING for v in row)) for node, row in rows),
    )


def _slowest(survey: Survey) -> Table:
    pairs = sorted(survey.pairs, key=lambda one: one.bandwidth)[:SLOWEST]
    rows = ((p.source, p.target, gbits(p.bandwidth), f"{1e6 * p.latency:.0f}") for p in pairs)
    return Table(("the slowest: from", "to", "Gbit/s", "µs"), tuple(rows))


def _exchanges(survey: Survey) -> Table:
    rows = (
        (
            size_text(one.nbytes),
            one.algorithm,
            f"{1000 * one.seconds:.3g}",
            f"{_BITS * one.algbw:.3g}",
            f"{_BITS * one.busbw:.3g}",
        )
        for one in survey.exchanges
    )
    return Table(("size", "algorithm", "ms", "algbw, Gbit/s", "busbw, Gbit/s"), tuple(rows))


def _rates(rates: tuple[Rate, ...]) -> Table:
    rows = ((rate.node, rate.what, _rate(rate)) for rate in sorted(rates, key=_order))
    return Table(("node", "what", "rate"), tuple(rows))


def _rate(rate: Rate) -> str:
    said = f"{size_text(rate.bandwidth)}/s"
    return f"{said}, {1e6 * rate.latency:.3g} µs" if rate.latency else said


def _order(rate: Rate) -> tuple[str, str]:
    return rate.what, rate.node


def ways(survey: Survey) -> Iterator[str]:
    """Yield whose algorithms were measured, in the order in which they were."""
    yield from dict.fromkeys(one.algorithm.partition(":")[0] for one in survey.exchanges)


def _weekday(since: float, now: float) -> str:
    """Return the weekday of what is less than a week ago, but not today."""
    if not since or now - since > _WEEK:
        return ""
    then = time.localtime(since)
    return "" if then.tm_yday == time.localtime(now).tm_yday else time.strftime("%A", then)
