"""Show what a place offers: a table of types, each with a small picture of its price."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from workbench.core.diagnosis import Finding
from workbench.core.fleet import Offer
from workbench.core.offers import lacking_vcpus, total
from workbench.notebook.page import dense
from workbench.view.listing import NOTHING, VERDICTS
from workbench.view.phrases import count, duration, hourly

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


def offers_html(offers: Sequence[Offer], nodes: int, extra: float = 0.0) -> str:
    """Return the offers, the best first, as a table.

    Args:
        extra: $/h of one node beside its price: its disk.
        offers: As ``core.offers.ranked`` returns them; of a type only its best zone is shown.
    """
    if not offers:
        return ""
    best: dict[str, Offer] = {}
    for offer in offers:
        best.setdefault(offer.type, offer)
    shown = list(best.values())[:MOST_ROWS]
    zones = {one.type: sum(o.type == one.type for o in offers) - 1 for one in shown}
    rows = "".join(_row(offer, zones[offer.type], nodes, extra) for offer in shown)
    heads = (*_HEADERS, "all nodes, with disks" if extra else "all nodes")
    head = "".join(f'<th scope="col">{header}</th>' for header in heads)
    hidden = len(best) - len(shown)
    more = f"; {count(hidden, 'more type')} would do as well" if hidden else ""
    return dense(
        f"<table><caption>What fits, the best first{more}</caption>"
        f"<thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>"
    )


def chart(history: Sequence[tuple[float, float]], price: float) -> str:
    """Return a price's past as a small picture that is also said in words.

    Args:
        history: Epoch seconds and $/h, oldest first; a price stands until the next one.
    """
    if len(history) < 2:
        return NOTHING
    low, high = (edge(value for _, value in history) for edge in (min, max))
    first, last = history[0][0], history[-1][0]
    across = _WIDTH / ((last - first) or 1)
    up = (_HEIGHT - 4) / ((high - low) or 1)
    points = []
    for (at, value), (until, _) in zip(history, (*history[1:], history[-1]), strict=True):
        y = _HEIGHT - 2 - up * (value - low)
        points += [f"{across * (x - first):.1f},{y:.1f}" for x in (at, until)]
    words = (
        f"from {hourly(low)} to {hourly(high)} over {duration(last - first)}, {hourly(price)} now"
    )
    return (
        f'<svg width="{_WIDTH}" height="{_HEIGHT}" role="img" aria-label="{words}">'
        f"<title>{words}</title>"
        '<polyline fill="none" stroke="currentColor" stroke-width="1.5" '
        f'points="{" ".join(points)}"/></svg> '
        f'<span style="white-space: nowrap">{hourly(low).removesuffix("/h")}–{hourly(high)}</span>'
    )


def findings_html(findings: Sequence[Finding]) -> str:
    """Return what a dry run found; what is well is folded."""
    if not findings:
        return ""
    faults = [finding for finding in findings if finding.ok is False]
    rows = "".join(
        f"<tr><td>{escape(f.check)}</td><td>{VERDICTS[f.ok]}</td>"
        f"<td>{escape(f.found)}</td><td>{escape(f.remedy)}</td></tr>"
        for f in (*faults, *(f for f in findings if f.ok is not False))
    )
    heads = "".join(f'<th scope="col">{h}</th>' for h in ("check", "verdict", "found", "remedy"))
    said = (
        f"{count(len(faults), 'thing')} to mend before nodes can be bought"
        if faults
        else f"{count(len(findings), 'check')} of the dry run passed, or did not apply"
    )
    return dense(
        f"<details{' open' if faults else ''}><summary>{said}</summary>"
        f"<table><thead><tr>{heads}</tr></thead><tbody>{rows}</tbody></table></details>"
    )


def _row(offer: Offer, zones: int, nodes: int, extra: float) -> str:
    gpu = f"{offer.gpus} × {offer.gpu}, {offer.gpu_memory:g} GiB" if offer.gpus else "none"
    burst = f" (bursts to {offer.burst:g})" if offer.burst > offer.network else ""
    cells = (
        offer.zone + (f" and {count(zones, 'other')}" if zones else ""),
        hourly(offer.price),
        None,
        gpu,
        str(offer.vcpus),
        f"{offer.memory:g} GiB",
        f"{offer.network:g} Gbit/s{burst}" if offer.network else f"unknown{burst}",
        _quota(offer, nodes),
        hourly(total(offer.price, nodes, extra)),
    )
    shown = "".join(
        f"<td>{chart(offer.history, offer.price) if cell is None else escape(cell)}</td>"
        for cell in cells
    )
    return f'<tr><th scope="row">{escape(offer.type)}</th>{shown}</tr>'


def _quota(offer: Offer, nodes: int) -> str:
    if offer.quota is None:
        return "unknown"
    lacking = lacking_vcpus(offer, nodes)
    return f"{offer.quota} vCPUs" + (f", {lacking} too few" if lacking else "")
