"""Ask for nodes by what one needs, and show what fits, what it costs and whether it is allowed."""

from __future__ import annotations

from typing import Any

import ipywidgets as widgets

from workbench.core.cost import extra_price
from workbench.core.diagnosis import Finding
from workbench.core.fleet import FleetWish, Needs, Offer, Place
from workbench.core.ladder import Rung, rungs
from workbench.core.offers import ranked, total, why_none
from workbench.errors import InputError
from workbench.notebook.extras_form import ExtrasForm
from workbench.notebook.fields import amount, at_least, button, fill, listed, row, said, text, whole
from workbench.notebook.offers_view import findings_html, offers_html
from workbench.view.phrases import count, dollars, duration, hourly

ANY = "any that fits"
HOURS = 8.0
_UNKNOWN = "Press Show what fits to see types, prices and the total per hour."


class MarketForm:
    """What one needs, and what fits it.

    Args:
        place: Where the nodes are bought, or where that is rehearsed.
    """

    def __init__(self, place: Place) -> None:
        self.place = place
        self.found: tuple[Offer, ...] = ()
        self.findings: tuple[Finding, ...] = ()
        self._found_for: tuple[Needs, str] | None = None
        self._build()

    def wish(self, nodes: int, least: int, most: int, now: float) -> FleetWish:
        """Return what the boxes ask for.

        Raises:
            InputError: They ask for what cannot be.
        """
        hours = at_least(self.hours)
        asked = FleetWish(
            self.place,
            nodes=nodes,
            least=least,
            most=most,
            needs=self._needs(),
            region=self.region.value.strip(),
            most_price=at_least(self.most_price),
            budget=at_least(self.budget),
            expires=now + 3600 * hours if hours else 0.0,
        )
        return self.extras.added_to(asked)

    def show(self, wish: FleetWish, now: float) -> None:
        """Write what was asked for into the boxes."""
        needs = wish.needs
        if needs.types:
            self.types.options = (ANY, *needs.types)
            self.types.value = needs.types[0]
        fill(
            [
                (self.gpus, needs.gpus),
                (self.gpu_memory, needs.gpu_memory),
                (self.memory, needs.memory),
                (self.vcpus, needs.vcpus),
                (self.network, needs.network),
                (self.zones, ", ".join(needs.zones)),
                (self.region, wish.region),
                (self.most_price, wish.most_price),
                (self.budget, wish.budget),
            ]
        )
        if wish.expires > now:
            self.hours.value = round((wish.expires - now) / 3600, 2)
        self.extras.show(wish)

    def take(self, wish: FleetWish, region: str, offers: tuple[Offer, ...]) -> None:
        """Keep what fits ``wish``, and show it.

        Args:
            region: The one that was looked at.
        """
        chosen = self.types.value
        self.region.value = region
        self.found = offers
        self._found_for = (self._needs(typed=False), region)
        names = tuple(dict.fromkeys(o.type for o in ranked(offers, self._needs(False), wish.nodes)))
        self.types.options = (ANY, *names)
        self.types.value = chosen if chosen in names else ANY

    def judge(self, findings: tuple[Finding, ...]) -> None:
        """Keep and show what a dry run found."""
        self.findings = findings
        self.permissions.value = findings_html(findings)

    def first_rung(self, wish: FleetWish) -> Rung | None:
        """Return what is tried first; None while nothing that is known fits."""
        if not self._is_known() or wish.nodes < 1:
            return None
        room, extra = wish.most_price, extra_price(self.place)
        tried = rungs(wish.needs, self.found, wish.nodes, wish.least, room=room, extra=extra)
        return tried[0] if tried else None

    def summary(self, wish: FleetWish) -> str:
        """Return what the nodes cost in all, or why there are none to be had."""
        return self._total(wish, self.first_rung(wish))

    def refresh(self, nodes: int, least: int, most: int, now: float) -> bool:
        """Show table and total as they are for so many nodes; tell whether one may start."""
        try:
            wish = self.wish(nodes, least, most, now)
        except InputError as error:
            self.total.value = said(str(error))
            return False
        if not self._is_known():
            self.table.value = ""
            self.total.value = said(_UNKNOWN)
            return False
        fitting = ranked(self.found, wish.needs, nodes)
        self.table.value = offers_html(fitting, nodes, extra_price(self.place))
        rung = self.first_rung(wish)
        self.total.value = said(self._total(wish, rung))
        return rung is not None and not any(one.ok is False for one in self.findings)

    def _total(self, wish: FleetWish, rung: Rung | None) -> str:
        if wish.nodes < 1:
            return "With 0 nodes nothing is bought."
        fitting = ranked(self.found, wish.needs, wish.nodes)
        if not fitting:
            return why_none(wish, self.found)
        extra = extra_price(self.place)
        if rung is None:
            least = hourly(total(fitting[0].price, wish.least, extra))
            return (
                f"{count(wish.least, 'node')} cost at least {least}, more than the "
                f"{hourly(wish.most_price)} that all may cost; raise that, or ask for fewer."
            )
        hour = total(self._price(rung), rung.count, extra)
        lasts = ""
        if wish.budget and hour:
            lasts = f"; {dollars(wish.budget)} last {duration(3600 * wish.budget / hour)}"
        disks = f", with {hourly(extra * rung.count)} for their disks"
        bought = " (a rehearsal: nothing is bought)" if self.place is Place.FAKE else disks
        return f"Total {hourly(hour)} at the price of now for {rung}{bought}{lasts}."

    def _price(self, rung: Rung) -> float:
        return min(
            offer.price
            for offer in self.found
            if offer.type in rung.types and rung.zone in ("", offer.zone)
        )

    def _is_known(self) -> bool:
        try:
            asked = (self._needs(typed=False), self.region.value.strip())
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
        )

    def _build(self) -> None:
        self.gpus = whole("GPUs a node", 0, "At least; 0 for none")
        self.gpu_memory = amount("GPU memory, GiB", 0.0, "Of each GPU, at least")
        self.memory = amount("Memory, GiB", 0.0, "Of each node, at least")
        self.vcpus = whole("vCPUs", 0, "Of each node, at least")
        self.network = amount("Network, Gbit/s", 0.0, "That each node sustains, at least")
        self.zones = text("Zones", "any", "The only zones that will do, with commas between")
        self.region = text("Region", "that of AWS's settings", "Where to buy")
        self.region.layout.display = None if self.place is Place.EC2 else "none"
        self.most_price = amount("Most $/h, all nodes", 0.0, "0 for no bound")
        self.budget = amount("Budget, $", 0.0, "All that this cluster may cost; 0 for no bound")
        self.hours = amount("Time to live, h", HOURS, "Then all is deleted; 0 for never")
        self.find = button("Show what fits", "Types, prices, quota and permissions", "search")
        self.types = widgets.Dropdown(
            options=(ANY,), description="Only type", style={"description_width": "11em"}
        )
        self.table, self.total, self.permissions = (widgets.HTML() for _ in range(3))
        self.extras = ExtrasForm(self.place)
        self.boxes = (
            *(self.gpus, self.gpu_memory, self.memory, self.vcpus, self.network, self.zones),
            *(self.region, self.most_price, self.budget, self.hours, self.types),
        )
        self.widget = widgets.VBox(
            [
                row(*self.boxes[:-1]),
                self.extras.widget,
                row(self.find),
                self.table,
                row(self.types),
                self.permissions,
                self.total,
            ]
        )

    def observe(self, changed: Any) -> None:
        """Have ``changed`` called when a box has another value."""
        for box in self.boxes:
            box.observe(changed, "value")
