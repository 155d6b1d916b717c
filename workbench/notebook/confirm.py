"""Confirm a higher price or a cluster's deletion, and report afterwards what is left."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import ipywidgets as widgets

from workbench.core.fleet.model import Leftover
from workbench.core.fleet.provider import Provider
from workbench.core.units import count
from workbench.notebook.forms.form_fields import HtmlField, alert_html, button, row
from workbench.view.tables.nodes import FleetNodes
from workbench.view.text import dollars, hourly, moment


class Confirmation:
    """A question with the price, and buttons to confirm or cancel."""

    def __init__(self) -> None:
        self._on_yes: Callable[[], None] | None = None
        self.shown = HtmlField()
        self.yes = button("Start at that price", "Start these nodes", "primary")
        self.no = button("Cancel", "Keep the number of nodes")
        self.yes.on_click(lambda _: self._answer(True))
        self.no.on_click(lambda _: self._answer(False))
        self.widget = widgets.VBox([self.shown, row(self.yes, self.no)])
        self.widget.layout.display = "none"

    def ask(self, sentence: str, on_yes: Callable[[], None]) -> None:
        """Show the question; an earlier question is cancelled."""
        self._on_yes = on_yes
        self.shown.value = alert_html(sentence)
        self.widget.layout.display = None

    def _answer(self, is_yes: bool) -> None:
        on_yes, self._on_yes = self._on_yes, None
        self.widget.layout.display = "none"
        if is_yes and on_yes is not None:
            on_yes()


class DeleteConfirmation:
    """Says what goes, and does it on a yes only.

    Args:
        on_yes: Called with nothing.
    """

    def __init__(self, on_yes: Callable[[], None]) -> None:
        self._on_yes = on_yes
        self.shown = HtmlField()
        self.yes = button("Yes, delete", "This cannot be undone", "danger")
        self.no = button("Cancel", "Keep the cluster")
        self.yes.on_click(lambda _: self._answer(True))
        self.no.on_click(lambda _: self._answer(False))
        self.widget = widgets.VBox([self.shown, row(self.yes, self.no)])
        self.widget.layout.display = "none"

    def ask(self, fleet: FleetNodes, runs: Sequence[str]) -> None:
        """Show what would be deleted."""
        self.shown.value = alert_html(describe_deletion(fleet, runs))
        self.widget.layout.display = None

    def _answer(self, is_yes: bool) -> None:
        self.widget.layout.display = "none"
        if is_yes:
            self._on_yes()


def describe_deletion(fleet: FleetNodes, runs: Sequence[str]) -> str:
    """Return what is deleted, and its cost.

    Args:
        runs: Names of the unfinished runs.
    """
    stops = f"Its ranks end, and its unfinished runs stop: {', '.join(runs)}."
    parts = [
        f"Delete cluster {fleet.wish.name}?",
        _describe_nodes(fleet),
        stops if runs else "Its ranks end.",
        "The results of its runs are kept.",
    ]
    return " ".join(filter(None, parts))


def _describe_nodes(fleet: FleetNodes) -> str:
    place, nodes = fleet.wish.fleet.place, len(fleet.nodes)
    if not place.has_nodes:
        return ""
    if place.lists_hosts:
        return "The hosts themselves keep running."
    belongs = "it is" if nodes == 1 else "them are"
    what = f"{count(nodes, 'node')} and all that belongs to {belongs} deleted."
    cost = fleet.bill
    price = f" Price now: {hourly(cost.price)}; so far: {dollars(cost.spent)}." if cost else ""
    return what + price


def proof(cluster: str, place: Provider, left: Sequence[Leftover], now: float) -> str:
    """Return the provider's resources with the cluster's tags, as a sentence."""
    if not left:
        return f"Verified at {moment(now)}: no resource of cluster {cluster!r} is left."
    things = ", ".join(f"{one.kind} {one.id}" for one in left)
    price = sum(one.price for one in left)
    return (
        f"Left of cluster {cluster!r}{f', at {hourly(price)}' if price else ''}: {things}. "
        f"It is deleted as soon as {place.label} allows it; run `workbench sweep-leaks` if it "
        "stays."
    )
