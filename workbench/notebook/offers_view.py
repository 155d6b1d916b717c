"""The table of a provider's offers, each with a small picture of its price history."""

from __future__ import annotations

from collections.abc import Sequence

from workbench.core.fleet.cost import ALL_BILLED
from workbench.core.fleet.model import Offer
from workbench.core.fleet.offers import lacking_vcpus, total
from workbench.core.fleet.suitability import LISTED
from workbench.core.node.findings import Finding
from workbench.core.units import count
from workbench.notebook.cell_output import condense
from workbench.view.html import Html, element, words
from workbench.view.tables.listing import (
    NOTHING,
    VERDICTS,
    Table,
    cell,
    frame_table,
    head_cell,
    table_html,
)
from workbench.view.text import duration, hourly, network

MOST_ROWS = 12
_WIDTH, _HEIGHT = 120, 24
_HEADERS = (
    "type",
    "zone",
    "price now",
    "past days",
    "GPU",
    "vCPUs",
    "memory",
    "network (baseline)",
    "quota left",
)
_SIDES = (
    *("left", "left", "right"),
    *("left", "left"),
    *("right", "right", "right"),
    "left",
    "right",
)


def offers_html(offers: Sequence[Offer], nodes: int) -> Html:
    """Return the offers, the best first, as a table.

    Args:
        offers: As ``core.fleet.offers.rank_offers`` returns them; only the best zone of each
            type is shown.
    """
    if not offers:
        return words("")
    best: dict[str, Offer] = {}
    for offer in offers:
        best.setdefault(offer.type, offer)
    shown = list(best.values())[:MOST_ROWS]
    zones = {one.type: sum(o.type == one.type for o in offers) - 1 for one in shown}
    rows = [_row(offer, zones[offer.type], nodes) for offer in shown]
    billed = any(offer.extra_price for offer in offers)
    heads = (*_HEADERS, ALL_BILLED if billed else "all nodes")
    head = element("tr", *map(head_cell, heads, _SIDES))
    hidden = len(best) - len(shown)
    more = f"; {count(hidden, 'more type')} fit as well" if hidden else ""
    more += f". {LISTED}" if billed else ""
    parts = [element("thead", head), element("tbody", *rows)]
    return condense([frame_table(parts, f"What fits, best first{more}")])


def chart(history: Sequence[tuple[float, float]], price: float) -> Html:
    """Return a price history as a small picture with a description.

    Args:
        history: Epoch seconds and $/h, oldest first; a price is valid until the next one.
    """
    if len(history) < 2:
        return words(NOTHING)
    low, high = (edge(value for _, value in history) for edge in (min, max))
    first, last = history[0][0], history[-1][0]
    across = _WIDTH / ((last - first) or 1)
    up = (_HEIGHT - 4) / ((high - low) or 1)
    points = []
    for (at, value), (until, _) in zip(history, (*history[1:], history[-1]), strict=True):
        y = _HEIGHT - 2 - up * (value - low)
        points += [f"{across * (x - first):.1f},{y:.1f}" for x in (at, until)]
    said = (
        f"from {hourly(low)} to {hourly(high)} over {duration(last - first)}, {hourly(price)} now"
    )
    line = element(
        "polyline", fill="none", stroke="currentColor", stroke_width=1.5, points=" ".join(points)
    )
    sides = {"width": _WIDTH, "height": _HEIGHT}
    drawn = element("svg", line, **sides, role="img", aria_label=said)
    edges = f"{hourly(low).removesuffix('/h')}–{hourly(high)}"
    range_ = element("span", edges, style="white-space: nowrap")
    return element("span", drawn, " ", range_, title=said)


def _count_passed(findings: Sequence[Finding]) -> str:
    unknown = sum(finding.ok is None for finding in findings)
    passed = f"{count(len(findings) - unknown, 'check')} of the dry run passed"
    return f"{passed}, {unknown} cannot be tested before resources exist" if unknown else passed


def findings_html(findings: Sequence[Finding]) -> Html:
    """Return the findings of a dry run; passed checks are folded."""
    if not findings:
        return words("")
    faults = [finding for finding in findings if finding.ok is False]
    rows = tuple(
        (f.check, VERDICTS[f.ok], f.found, f.remedy)
        for f in (*faults, *(f for f in findings if f.ok is not False))
    )
    listed = table_html(Table(("check", "verdict", "found", "remedy"), rows))
    said = (
        f"{count(len(faults), 'problem')} to fix before nodes can be bought"
        if faults
        else _count_passed(findings)
    )
    return condense([element("details", element("summary", said), listed, open=bool(faults))])


def _row(offer: Offer, zones: int, nodes: int) -> Html:
    gpu = f"{offer.gpus} × {offer.gpu}, {offer.gpu_memory:.3g} GiB" if offer.gpus else "none"
    burst = f" (bursts to {offer.burst:g})" if offer.burst > offer.network else ""
    cells = (
        offer.zone + (f" and {count(zones, 'other')}" if zones else ""),
        hourly(offer.price),
        None,
        gpu,
        str(offer.vcpus),
        f"{offer.memory:g} GiB",
        f"{network(offer)}{burst}",
        _quota(offer, nodes),
        hourly(total(offer, nodes)),
    )
    shown = (
        cell(chart(offer.history, offer.price) if text is None else text, side)
        for text, side in zip(cells, _SIDES[1:], strict=True)
    )
    return element("tr", head_cell(offer.type, scope="row"), *shown)


def _quota(offer: Offer, nodes: int) -> str:
    if offer.quota is None:
        return "unknown"
    lacking = lacking_vcpus(offer, nodes)
    return f"{offer.quota} vCPUs" + (f", {lacking} missing" if lacking else "")
