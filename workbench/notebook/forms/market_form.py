"""The form for rented nodes: requirements, matching offers, prices and missing permissions."""

from __future__ import annotations

from dataclasses import replace

import ipywidgets as widgets

from workbench.core.fleet.cost import extra_charges
from workbench.core.fleet.fallbacks import Candidate, candidates, first_offer
from workbench.core.fleet.model import FleetWish, Offer
from workbench.core.fleet.offers import rank_offers, total, why_not
from workbench.core.fleet.provider import Provider
from workbench.core.fleet.suitability import collect_needs, slowing, without_cuda
from workbench.core.node.findings import Finding
from workbench.core.units import count
from workbench.errors import InputError
from workbench.notebook.forms.form_fields import (
    STYLE,
    HtmlField,
    button,
    row,
    status_html,
)
from workbench.notebook.forms.provider_form import ProviderForm
from workbench.notebook.offers_view import findings_html, offers_html
from workbench.requests.environment import has_cuda_here, travel_notes
from workbench.view.text import dollars, duration, hourly

ANY = "any that fits"
_UNKNOWN = "Press Show what fits to see types, prices and the total per hour."


class MarketForm(ProviderForm):
    """The requirements, and the offers that match."""

    def __init__(self, place: Provider) -> None:
        super().__init__(place)
        self.found: tuple[Offer, ...] = ()
        self.findings: tuple[Finding, ...] = ()
        self._found_for: FleetWish | None = None
        self.find = button("Show what fits", "Instance types, prices, quota and permissions")
        self.types = widgets.Dropdown(options=(ANY,), description="Instance type", style=STYLE)
        self.table, self.total, self.permissions = (HtmlField() for _ in range(3))
        self.widget = widgets.VBox(
            [
                row(*self.main),
                self.extras,
                row(self.find),
                self.table,
                self.types,
                self.permissions,
                self.total,
            ]
        )

    def wish(self, nodes: int, min_nodes: int, max_nodes: int, now: float) -> FleetWish:
        """Return what the boxes ask for.

        Raises:
            InputError: They ask for what cannot be.
        """
        types = () if self.types.value == ANY else (self.types.value,)
        return self.wish_for(nodes, min_nodes, max_nodes, now, types=types)

    def show(self, wish: FleetWish, now: float) -> None:
        """Write what was asked for into the boxes."""
        super().show(wish, now)
        types = wish.needs.types
        self.types.options = (ANY, *types)
        self.types.value = types[0] if types else ANY

    def take(self, wish: FleetWish, region: str, offers: tuple[Offer, ...]) -> None:
        """Store the offers that fit ``wish``, and show them.

        Args:
            region: The region searched.
        """
        chosen = self.types.value
        if "region" in self.boxes:
            self.boxes["region"].value = region
            wish = replace(wish, region=region)
        self.found = offers
        self._found_for = self._market(wish)
        needs = replace(collect_needs(wish), types=())
        names = [offer.type for offer in rank_offers(offers, needs, wish.nodes)]
        # A type that must be named explicitly stays named.
        names += [offer.type for offer in offers if offer.type == chosen]
        self.types.options = (ANY, *dict.fromkeys(names))
        self.types.value = chosen if chosen in names else ANY

    def judge(self, findings: tuple[Finding, ...]) -> None:
        """Store and show the findings of a dry run."""
        self.findings = findings
        self.permissions.value = findings_html(findings)

    def first_candidate(self, wish: FleetWish) -> Candidate | None:
        """Return the candidate that is tried first; None without one."""
        if not self._is_known() or wish.nodes < 1:
            return None
        if why_not(wish, self.found):
            return None
        room = wish.max_price
        tried = candidates(
            collect_needs(wish), self.found, wish.nodes, wish.min_nodes, room=room,
            placement=wish.nodes > 1,
        )  # fmt: skip
        return tried[0] if tried else None

    def summary(self, wish: FleetWish) -> str:
        """Return the total price of the nodes, or why none are available."""
        return self._total(wish, self.first_candidate(wish))

    def refresh(self, nodes: int, min_nodes: int, max_nodes: int, now: float) -> str:
        """Show the offers and the total price; return why they cannot be started, or empty."""
        try:
            wish = self.wish(nodes, min_nodes, max_nodes, now)
        except InputError as error:
            self.total.value = status_html(str(error))
            return str(error)
        if not self._is_known():
            self.table.value = ""
            self.total.value = status_html(_UNKNOWN)
            return _UNKNOWN
        fitting = rank_offers(self.found, collect_needs(wish), nodes)
        self.table.value = offers_html(fitting, nodes)
        candidate = self.first_candidate(wish)
        total = self._total(wish, candidate)
        self.total.value = status_html(" ".join([*self._remarks(wish, candidate), total]))
        if any(one.ok is False for one in self.findings):
            return "The dry run found problems; fix them first."
        return "" if candidate else total

    def _total(self, wish: FleetWish, candidate: Candidate | None) -> str:
        if wish.nodes < 1:
            return "With 0 nodes nothing is bought."
        if why := why_not(wish, self.found):
            return why
        fitting = rank_offers(self.found, collect_needs(wish), wish.nodes)
        if candidate is None:
            least = hourly(total(fitting[0], wish.min_nodes))
            return (
                f"{count(wish.min_nodes, 'node')} cost at least {least}, above the "
                f"max price of {hourly(wish.max_price)}; raise it, or ask for fewer nodes."
            )
        first = self._cheapest(candidate)
        hour = total(first, candidate.count)
        lasts = ""
        if wish.budget and hour:
            lasts = f"; {dollars(wish.budget)} last {duration(3600 * wish.budget / hour)}"
        billed = f", with {extra_charges(first, candidate.count)}" if first.extra_price else ""
        bought = billed if self.place.is_paid else " (simulated: nothing is bought)"
        sentence = f"Total {hourly(hour)} at current prices for {candidate}{bought}{lasts}."
        return " ".join([sentence, *wish.place.traffic_notes(wish)])

    def _remarks(self, wish: FleetWish, candidate: Candidate | None) -> list[str]:
        """Return the remarks to show before the price is confirmed."""
        if candidate is None or not self.place.is_paid:
            return []
        first = first_offer(candidate, self.found)
        lacks = without_cuda(wish, first, has_cuda_here(), f"tick “{self._label('cuda')}”")
        return [*filter(None, [slowing(first), lacks]), *travel_notes(wish, first)]

    def _cheapest(self, candidate: Candidate) -> Offer:
        found = [
            offer
            for offer in self.found
            if offer.type in candidate.types and candidate.zone in ("", offer.zone)
        ]
        return min(found, key=lambda offer: offer.hour)

    def _is_known(self) -> bool:
        """Return whether the offers that were found are those of the boxes' values."""
        try:
            return self._found_for == self._market(self.wish(1, 1, 0, 0.0))
        except InputError:
            return False

    @staticmethod
    def _market(wish: FleetWish) -> FleetWish:
        """Return what the offers depend on: neither the numbers, nor the type that was chosen."""
        return FleetWish(
            wish.provider,
            needs=replace(wish.needs, types=()),
            region=wish.region,
            settings=wish.settings,
        )
