"""The form for rented nodes: requirements, matching offers, prices and missing permissions."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import ipywidgets as widgets

from workbench.core.fleet.charges import extra_charges, traffic
from workbench.core.fleet.cuda import without_cuda
from workbench.core.fleet.fallbacks import Candidate, candidates, first_offer
from workbench.core.fleet.model import FleetWish, Needs, Offer, Provider
from workbench.core.fleet.offers import ranked, total, why_not
from workbench.core.fleet.suitability import required, slowing
from workbench.core.node.findings import Finding
from workbench.core.units import count
from workbench.errors import InputError
from workbench.notebook.forms.extras_form import ExtrasForm
from workbench.notebook.forms.form_fields import (
    STYLE,
    HtmlBox,
    amount,
    at_least,
    button,
    fill,
    listed,
    row,
    said,
    show,
    text,
    whole,
)
from workbench.notebook.offers_view import findings_html, offers_html
from workbench.requests.environment import has_cuda_here, travel_notes
from workbench.view.text import dollars, duration, hourly

ANY = "any that fits"
HOURS = 8.0
CUDA_LABEL = "Install CuPy and NCCL on nodes"
_UNKNOWN = "Press Show what fits to see types, prices and the total per hour."


class MarketForm:
    """The requirements, and the offers that match.

    Args:
        provider: EC2, or the rehearsal.
    """

    def __init__(self, provider: Provider) -> None:
        self.provider = provider
        self.found: tuple[Offer, ...] = ()
        self.findings: tuple[Finding, ...] = ()
        self._found_for: tuple[Needs, str, int] | None = None
        self._build()

    def wish(self, nodes: int, min_nodes: int, max_nodes: int, now: float) -> FleetWish:
        """Return what the boxes ask for.

        Raises:
            InputError: They ask for what cannot be.
        """
        hours = at_least(self.hours)
        asked = FleetWish(
            self.provider,
            nodes=nodes,
            min_nodes=min_nodes,
            max_nodes=max_nodes,
            needs=self._needs(),
            region=self.region.value.strip(),
            max_price=at_least(self.max_price),
            budget=at_least(self.budget),
            expires=now + 3600 * hours if hours else 0.0,
            cuda=self.cuda.value,
        )
        return self.extras.added_to(asked)

    def show(self, wish: FleetWish, now: float) -> None:
        """Write what was asked for into the boxes."""
        needs = wish.needs
        self.types.options = (ANY, *needs.types)
        self.types.value = needs.types[0] if needs.types else ANY
        fill(
            [
                (self.gpus, needs.gpus),
                (self.gpu_memory, needs.gpu_memory),
                (self.memory, needs.memory),
                (self.vcpus, needs.vcpus),
                (self.network, needs.network),
                (self.zones, ", ".join(needs.zones)),
                (self.region, wish.region),
                (self.max_price, wish.max_price),
                (self.budget, wish.budget),
                (self.cuda, wish.cuda),
                (self.hours, _hours(wish.expires - now) if wish.expires > now else HOURS),
            ]
        )
        self.extras.show(wish)

    def take(self, wish: FleetWish, region: str, offers: tuple[Offer, ...]) -> None:
        """Store the offers that fit ``wish``, and show them.

        Args:
            region: The region searched.
        """
        chosen = self.types.value
        self.region.value = region
        self.found = offers
        self._found_for = (self._needs(typed=False), region, self.extras.wished_disk())
        needs = replace(required(wish), types=())
        names = [offer.type for offer in ranked(offers, needs, wish.nodes)]
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
            required(wish), self.found, wish.nodes, wish.min_nodes, room=room,
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
            self.total.value = said(str(error))
            return str(error)
        if not self._is_known():
            self.table.value = ""
            self.total.value = said(_UNKNOWN)
            return _UNKNOWN
        fitting = ranked(self.found, required(wish), nodes)
        self.table.value = offers_html(fitting, nodes)
        candidate = self.first_candidate(wish)
        total = self._total(wish, candidate)
        self.total.value = said(" ".join([*self._remarks(wish, candidate), total]))
        if any(one.ok is False for one in self.findings):
            return "The dry run found problems; fix them first."
        return "" if candidate else total

    def _total(self, wish: FleetWish, candidate: Candidate | None) -> str:
        if wish.nodes < 1:
            return "With 0 nodes nothing is bought."
        if why := why_not(wish, self.found):
            return why
        fitting = ranked(self.found, required(wish), wish.nodes)
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
        bought = (
            " (a rehearsal: nothing is bought)" if self.provider is Provider.REHEARSAL else billed
        )
        sentence = f"Total {hourly(hour)} at current prices for {candidate}{bought}{lasts}."
        return " ".join([sentence, *traffic(wish)])

    def _remarks(self, wish: FleetWish, candidate: Candidate | None) -> list[str]:
        """Return the remarks to show before the price is confirmed."""
        if candidate is None or self.provider is Provider.REHEARSAL:
            return []
        first = first_offer(candidate, self.found)
        lacks = without_cuda(wish, first, has_cuda_here(), f"tick “{CUDA_LABEL}”")
        return [*filter(None, [slowing(first), lacks]), *travel_notes(wish, first)]

    def _cheapest(self, candidate: Candidate) -> Offer:
        found = [
            offer
            for offer in self.found
            if offer.type in candidate.types and candidate.zone in ("", offer.zone)
        ]
        return min(found, key=lambda offer: offer.hour)

    def _is_known(self) -> bool:
        try:
            asked = (
                self._needs(typed=False),
                self.region.value.strip(),
                self.extras.wished_disk(),
            )
        except InputError:
            return False
        return self._found_for == asked

    def _needs(self, typed: bool = True) -> Needs:
        return Needs(
            gpus=at_least(self.gpus),
            gpu_memory=at_least(self.gpu_memory),
            memory=at_least(self.memory),
            vcpus=at_least(self.vcpus),
            network=at_least(self.network),
            types=(self.types.value,) if typed and self.types.value != ANY else (),
            zones=listed(self.zones),
            subnets=self.extras.wished_subnets(),
        )

    def _build(self) -> None:
        self.gpus = whole("GPUs per node", 0, "At least; 0 = none needed")
        self.gpu_memory = amount("GPU memory, GiB", 0.0, "Per GPU, at least")
        self.memory = amount("Memory, GiB", 0.0, "Per node, at least")
        self.vcpus = whole("vCPUs", 0, "Per node, at least")
        self.network = amount("Network, Gbit/s", 0.0, "Sustained, per node, at least")
        self.zones = text("Zones", "any", "Only these availability zones, separated by commas")
        self.region = text("Region", "from your AWS config", "AWS region")
        self.region.layout.display = None if self.provider is Provider.EC2 else "none"
        self.max_price = amount("Max price, $/h", 0.0, "For all nodes together; 0 = no limit")
        self.budget = amount("Budget, $", 0.0, "Delete the cluster when it is spent; 0 = no limit")
        self.hours = amount(
            "Time to live, h", HOURS, "Delete the cluster after this time; 0 = never"
        )
        self.find = button("Show what fits", "Instance types, prices, quota and permissions")
        self.types = widgets.Dropdown(options=(ANY,), description="Instance type", style=STYLE)
        self.cuda = widgets.Checkbox(value=False, description=CUDA_LABEL, indent=False)
        show(self.cuda, self.provider is Provider.EC2)
        self.table, self.total, self.permissions = (HtmlBox() for _ in range(3))
        self.extras = ExtrasForm(self.provider)
        self.boxes = (
            *(self.gpus, self.gpu_memory, self.memory, self.vcpus, self.network, self.zones),
            *(self.region, self.max_price, self.budget, self.hours, self.cuda, self.types),
        )
        self.widget = widgets.VBox(
            [
                row(*self.boxes[:-2]),
                self.extras.widget,
                row(self.find),
                self.table,
                row(self.types, self.cuda),
                self.permissions,
                self.total,
            ]
        )

    def observe(self, changed: Any) -> None:
        """Call ``changed`` when a box changes."""
        for box in self.boxes:
            box.observe(changed, "value")


def _hours(seconds: float) -> float:
    return round(seconds / 3600, 2)
