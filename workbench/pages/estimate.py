"""Estimate what the nodes of a form cost: the offers that fit, the total, and what forbids a start.

Offers are asked for once, and kept for a while: editing the number of nodes needs no further query.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace

from workbench.core.cluster.idleness import describe_end
from workbench.core.fleet.cost import ALL_BILLED, extra_charges
from workbench.core.fleet.fallbacks import (
    Candidate,
    candidates,
    cheapest_offer,
    dearest,
    first_offer,
    purchase,
)
from workbench.core.fleet.model import FleetWish, Offer
from workbench.core.fleet.offers import (
    LISTED,
    collect_needs,
    lacking_vcpus,
    rank_offers,
    slowing,
    total,
    why_not,
    without_cuda,
)
from workbench.core.node.findings import Finding
from workbench.core.units import count
from workbench.errors import CloudError, InputError, PriceQuestion
from workbench.pages.nodes_form import count_hosts, find_label, read_form
from workbench.pages.protocol import EstimateMessage, OfferMessage, OffersMessage, TableMessage
from workbench.pages.requests import FormRequest
from workbench.requests import cloud_queries
from workbench.requests.cluster import ask_cluster
from workbench.requests.environment import has_cuda_here, travel_notes
from workbench.store import Store
from workbench.view.text import NOTHING, VERDICTS, dollars, duration, hourly, network

MOST_ROWS = 12
MARKET_SECONDS = 1800.0  # spot prices rarely change sooner
_MOST_MARKETS = 16
_UNKNOWN = "Press Show what fits to see types, prices and the total per hour."
_COLUMNS = (
    "type", "zone", "price now", "past days", "GPU", "vCPUs", "memory", "network (baseline)",
    "quota left",
)  # fmt: skip


@dataclass(frozen=True)
class FoundMarket:
    """What a provider answered.

    Args:
        until: Seconds of the monotonic clock until which it counts.
    """

    region: str
    offers: tuple[Offer, ...]
    until: float
    findings: tuple[Finding, ...] = ()


class Markets:
    """The last answers, by cluster and by what offers depend on."""

    def __init__(self) -> None:
        self._found: dict[tuple[str, FleetWish], FoundMarket] = {}
        self._lock = threading.Lock()

    def put(self, cluster: str, fleet: FleetWish, found: FoundMarket) -> None:
        """Keep an answer; the oldest is dropped."""
        with self._lock:
            self._found.pop(key := (cluster, _market_of(fleet)), None)
            self._found[key] = found
            while len(self._found) > _MOST_MARKETS:
                del self._found[next(iter(self._found))]

    def get(self, cluster: str, fleet: FleetWish) -> FoundMarket | None:
        """Return the answer for ``fleet``; None if there is none, or it is old."""
        with self._lock:
            found = self._found.get((cluster, _market_of(fleet)))
        return found if found and time.monotonic() < found.until else None


_markets = Markets()


def find_offers(store: Store, name: str, form: FormRequest) -> EstimateMessage:
    """Ask the provider for offers and permissions, which takes seconds; see ``estimate_form``.

    Raises:
        InputError: The form's values are not valid.
        CloudError: The provider does not answer, or not to us.
    """
    fleet = read_form(form)
    market = cloud_queries.query_market(replace(fleet, needs=replace(fleet.needs, types=())))
    until = time.monotonic() + MARKET_SECONDS
    if any(one.name == "region" for one in fleet.place.form):
        fleet = replace(fleet, region=market.region)
    if form.type not in (offer.type for offer in market.offers):
        fleet = replace(fleet, needs=replace(fleet.needs, types=()))
    found = FoundMarket(market.region, market.offers, until)
    if candidate := _first_candidate(fleet, found):
        trial = purchase(name, "trial", 0, candidate)
        findings = (*cloud_queries.ask_permissions(fleet, trial), *_ssh_findings(fleet))
        found = replace(found, findings=findings)
    _markets.put(name, fleet, found)
    return _estimate(fleet, found)


def estimate_form(store: Store, name: str, form: FormRequest) -> EstimateMessage:
    """Return what the values of a form come to, without a query; it may be a refusal."""
    try:
        fleet = read_form(form)
    except InputError as error:
        return EstimateMessage(refusal=str(error), says=str(error), hosts=count_hosts(form))
    if fleet.place.lists_hosts:
        return EstimateMessage(hosts=len(fleet.hosts))
    if (found := _markets.get(name, fleet)) is None:
        return EstimateMessage(refusal=_UNKNOWN, says=_UNKNOWN)
    return _estimate(fleet, found)


def start_nodes(store: Store, name: str, form: FormRequest, agreed: float | None) -> None:
    """Request the nodes of a form.

    Args:
        agreed: The $/h of all nodes that the person has seen.

    Raises:
        InputError: They cannot be started so; the sentence says why.
        PriceQuestion: They cost more than that.
    """
    fleet = read_form(form)
    found = estimate_form(store, name, form)
    if found.refusal:
        raise InputError(found.refusal)
    if found.price and found.price > (agreed or 0.0):
        raise PriceQuestion(found.says, found.price)
    price = found.price or 0.0
    fleet = dearest(replace(fleet, agreed=price), price / max(1, fleet.nodes))
    ask_cluster(store, 0, cluster=name, fleet=fleet)


def _estimate(fleet: FleetWish, found: FoundMarket) -> EstimateMessage:
    needs = collect_needs(fleet)
    candidate = _first_candidate(fleet, found)
    says = _describe_total(fleet, found, candidate)
    refusal = "" if candidate else says
    if any(one.ok is False for one in found.findings):
        refusal = "The dry run found problems; fix them first."
    listed = rank_offers(found.offers, replace(needs, types=()), fleet.nodes)
    # A type that must be named explicitly stays named.
    names = [offer.type for offer in listed] + [
        one.type for one in found.offers if one.type in needs.types
    ]
    return EstimateMessage(
        refusal=refusal,
        says=" ".join([*_list_remarks(fleet, found, candidate), says]),
        price=total(cheapest_offer(candidate, found.offers), candidate.count)
        if candidate
        else None,
        region=found.region,
        types=tuple(dict.fromkeys(names)),
        offers=_offers_message(
            rank_offers(found.offers, needs, fleet.nodes), fleet.nodes, fleet.place.unit
        ),
        findings=_findings_message(found.findings),
    )


def _market_of(fleet: FleetWish) -> FleetWish:
    """Return what offers depend on: neither the numbers, nor the type that was chosen."""
    return FleetWish(
        fleet.provider,
        needs=replace(fleet.needs, types=()),
        region=fleet.region,
        settings=fleet.settings,
    )


def _first_candidate(fleet: FleetWish, found: FoundMarket) -> Candidate | None:
    """Return the candidate that is tried first; None without one."""
    if fleet.nodes < 1 or why_not(fleet, found.offers):
        return None
    tried = candidates(
        collect_needs(fleet), found.offers, fleet.nodes, fleet.min_nodes, room=fleet.max_price,
        placement=fleet.nodes > 1,
    )  # fmt: skip
    return tried[0] if tried else None


def _describe_total(fleet: FleetWish, found: FoundMarket, candidate: Candidate | None) -> str:
    """Return the total price of the nodes, or why none are available."""
    if fleet.nodes < 1:
        return "With 0 nodes nothing is bought."
    if why := why_not(fleet, found.offers):
        return why
    if candidate is None:
        fitting = rank_offers(found.offers, collect_needs(fleet), fleet.nodes)
        least = hourly(total(fitting[0], fleet.min_nodes))
        return (
            f"{count(fleet.min_nodes, 'node')} cost at least {least}, above the max price of "
            f"{hourly(fleet.max_price)}; raise it, or ask for fewer nodes."
        )
    first = cheapest_offer(candidate, found.offers)
    hour, unit = total(first, candidate.count), fleet.place.unit
    lasts = ""
    if fleet.budget and hour:
        lasts = f"; {dollars(fleet.budget, unit)} last {duration(3600 * fleet.budget / hour)}"
    billed = f", with {extra_charges(first, candidate.count)}" if first.extra_price else ""
    bought = " (simulated: nothing is bought)" if fleet.place.is_simulated else billed
    most = dearest(fleet, first.hour).most_price * candidate.count
    waits = (
        f" At most {hourly(most)} is paid; otherwise it waits."
        if most and fleet.place.is_paid
        else ""
    )
    at = "" if unit else " at current prices"
    sentence = f"Total {hourly(hour, unit)}{at} for {candidate}{bought}{lasts}.{waits}"
    ends = describe_end(fleet, None, hour)
    return " ".join([sentence, *filter(None, [ends]), *fleet.place.traffic_notes(fleet)])


def _list_remarks(fleet: FleetWish, found: FoundMarket, candidate: Candidate | None) -> list[str]:
    """Return the remarks to show before the price is confirmed."""
    if candidate is None or not fleet.place.is_paid:
        return []
    first = first_offer(candidate, found.offers)
    tick = f"tick “{find_label(fleet.place, 'cuda')}”"
    lacks = without_cuda(fleet, first, has_cuda_here(), tick)
    said = [fleet.place.caution, slowing(first), lacks]
    return [*filter(None, said), *travel_notes(fleet, first)]


def _ssh_findings(fleet: FleetWish) -> tuple[Finding, ...]:
    """Return whether the nodes would accept ssh from this computer."""
    if not fleet.place.admits_ssh:
        return ()
    try:
        ssh_source = cloud_queries.ask_ssh_source(fleet)
    except (CloudError, InputError) as error:
        return (
            Finding("ssh", False, "no ssh access from here", f"{error} (More settings: ssh from)"),
        )
    return (Finding("ssh", True, f"accepted from {ssh_source}"),)


def _offers_message(offers: Sequence[Offer], nodes: int, unit: str = "") -> OffersMessage | None:
    """Return the best zone of each type, the best type first."""
    if not offers:
        return None
    best: dict[str, Offer] = {}
    for offer in offers:
        best.setdefault(offer.type, offer)
    shown = list(best.values())[:MOST_ROWS]
    billed = any(offer.extra_price for offer in offers)
    hidden = len(best) - len(shown)
    more = f"; {count(hidden, 'more type')} fit as well" if hidden else ""
    more += f". {LISTED}" if billed else ""
    return OffersMessage(
        title=f"What fits, best first{more}",
        columns=(*_COLUMNS, ALL_BILLED if billed else "all nodes"),
        rows=tuple(
            _offer_message(offer, sum(one.type == offer.type for one in offers) - 1, nodes, unit)
            for offer in shown
        ),
    )


def _offer_message(offer: Offer, zones: int, nodes: int, unit: str) -> OfferMessage:
    burst = f" (bursts to {offer.burst:g})" if offer.burst > offer.network else ""
    chart, between = _describe_history(offer)
    return OfferMessage(
        cells=(
            offer.type,
            offer.zone + (f" and {count(zones, 'other')}" if zones else ""),
            hourly(offer.price, unit),
            "" if chart else NOTHING,
            f"{offer.gpus} × {offer.gpu}, {offer.gpu_memory:.3g} GiB" if offer.gpus else "none",
            str(offer.vcpus),
            f"{offer.memory:g} GiB",
            f"{network(offer)}{burst}",
            _describe_quota(offer, nodes),
            hourly(total(offer, nodes), unit),
        ),
        history=tuple(offer.history) if chart else (),
        chart=chart,
        range=between,
    )


def _describe_history(offer: Offer) -> tuple[str, str]:
    """Return a price history in words, and its least and greatest price; empty if too short."""
    if len(offer.history) < 2:
        return "", ""
    low, high = (hourly(edge(price for _, price in offer.history)) for edge in (min, max))
    taken = duration(offer.history[-1][0] - offer.history[0][0])
    said = f"from {low} to {high} over {taken}, {hourly(offer.price)} now"
    return said, f"{low.removesuffix('/h')}–{high}"


def _describe_quota(offer: Offer, nodes: int) -> str:
    if offer.quota is None:
        return "unknown"
    lacking = lacking_vcpus(offer, nodes)
    return f"{offer.quota} vCPUs" + (f", {lacking} missing" if lacking else "")


def _findings_message(findings: Sequence[Finding]) -> TableMessage | None:
    """Return the findings of a dry run, the problems first; without any they are folded."""
    if not findings:
        return None
    faults = [one for one in findings if one.ok is False]
    unknown = sum(one.ok is None for one in findings)
    passed = f"{count(len(findings) - unknown, 'check')} of the dry run passed"
    if unknown:
        passed += f", {unknown} cannot be tested before resources exist"
    problems = f"{count(len(faults), 'problem')} to fix before nodes can be bought"
    return TableMessage(
        title=problems if faults else passed,
        columns=("check", "verdict", "found", "remedy"),
        rows=tuple(
            (one.check, VERDICTS[one.ok], one.found, one.remedy)
            for one in (*faults, *(one for one in findings if one.ok is not False))
        ),
        is_open=bool(faults),
    )
