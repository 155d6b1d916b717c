"""The layout of a cluster's panel, and which of its buttons are enabled; without their actions.

``extension/src/sizing.ts`` decides the same for the panel; both are tested with the cases of
``extension/src/__tests__/cluster.json``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import ipywidgets as widgets

from workbench.core.cluster.model import ClusterState, ClusterWish, ResizeAt
from workbench.core.fleet.model import FleetWish
from workbench.core.fleet.provider import LOCAL, Provider, find_provider, known_providers
from workbench.core.world.world import MAX_RANKS
from workbench.notebook.confirm import Confirmation, DeleteConfirmation
from workbench.notebook.forms.cluster_style import CLASS, title_html
from workbench.notebook.forms.form_fields import (
    STYLE,
    HtmlField,
    amount,
    button,
    row,
    show,
    size,
    whole,
)
from workbench.notebook.forms.hosts_form import HostsForm, KeyQuestion
from workbench.notebook.forms.market_form import MarketForm
from workbench.requests.cluster import local_slots, usual_ranks

MOVE_TIMES = (
    ("at the next iteration", ResizeAt.STEP),
    ("at the end of the epoch", ResizeAt.EPOCH),
    ("after the run", ResizeAt.END),
)
_RUNNING = frozenset({ClusterState.READY, ClusterState.RESIZING, ClusterState.PAUSED})


class ClusterBoxes:
    """The widgets of one cluster's panel.

    Args:
        cluster: The cluster's name.
        wish: The cluster's present desired state.
        on_delete: Called when deletion is confirmed.
        on_keys: Called with whether the shown host keys are trusted.
    """

    def __init__(
        self,
        cluster: str,
        wish: ClusterWish | None,
        on_delete: Callable[[], None],
        on_keys: Callable[[bool], None],
    ) -> None:
        local = LocalForm(wish, local_slots(), usual_ranks())
        self.ranks, self.oversubscribe = local.ranks, local.oversubscribe
        self.forms = {place.name: _form_of(place, local) for place in known_providers()}
        self.title = HtmlField(value=title_html(cluster))
        self.provider = widgets.Dropdown(
            options=[(place.label, place.name) for place in known_providers()],
            value=LOCAL,
            description="Provider",
            style=STYLE,
            layout=widgets.Layout(width="36em"),
        )
        self.nodes = size("Nodes", 2, "0 releases all nodes and keeps the cluster's definition")
        self.min_nodes = whole("Min nodes", 1, "Keep running with at least this many nodes")
        self.max_nodes = whole(
            "Max nodes", 0, "Add nodes up to this number while runs are queued; 0 = fixed size"
        )
        self.sizes = row(self.nodes, self.min_nodes, self.max_nodes)
        self.move_at = widgets.Dropdown(
            options=MOVE_TIMES, value=ResizeAt.STEP, description="The run moves", style=STYLE
        )
        show(self.move_at, False)
        self.hours = amount("Extend by, h", 1.0, "Hours to add to the time to live")
        self.extend = button("Extend", "Extend the time to live")
        self.state = HtmlField(description="State", style=STYLE)
        self.price = HtmlField(description="Price", style=STYLE)
        self.remark, self.message, self.facts = (HtmlField() for _ in range(3))
        self.start, self.resize, self.end = (
            button(label, "", style=style)
            for label, style in (("Start", ""), ("Resize", ""), ("Delete", "danger"))
        )
        self.delete = DeleteConfirmation(on_delete)
        self.keys = KeyQuestion(on_keys)
        self.more = Confirmation()
        self.box = widgets.VBox([local.widget])
        self.extension = row(self.hours, self.extend)
        self.widget = widgets.VBox(
            [
                self.title,
                self.provider,
                self.sizes,
                self.box,
                self.state,
                self.price,
                self.move_at,
                self.remark,
                row(self.start, self.resize, self.end),
                self.extension,
                self.delete.widget,
                self.keys.widget,
                self.more.widget,
                self.message,
                self.facts,
            ]
        )
        self.widget.add_class(CLASS)

    @property
    def place(self) -> Provider:
        """The provider that was chosen."""
        return find_provider(self.provider.value)

    @property
    def form(self) -> LocalForm | HostsForm | MarketForm:
        """What asks for a cluster from the provider that was chosen."""
        return self.forms[self.provider.value]


@dataclass(frozen=True)
class Refusals:
    """Why each button is disabled; empty if it is enabled."""

    start: str = ""
    resize: str = ""
    delete: str = ""


def _form_of(place: Provider, local: LocalForm) -> LocalForm | HostsForm | MarketForm:
    if not place.has_nodes:
        return local
    return HostsForm(place) if place.lists_hosts else MarketForm(place)


def refusals(wish: ClusterWish | None, state: ClusterState, number: int | None) -> Refusals:
    """Return why each button is disabled now.

    Args:
        state: The state as displayed.
        number: The number of ranks or nodes in the box; None if it is not valid.
    """
    return Refusals(
        start=_why_not_start(wish, state, number),
        resize=_why_not_resize(wish, state, number),
        delete=_why_not_delete(wish, state),
    )


def _why_not_start(wish: ClusterWish | None, state: ClusterState, number: int | None) -> str:
    if wish is not None and wish.up and state is not ClusterState.FAILED:
        is_starting = state is ClusterState.STARTING
        return "The cluster is starting." if is_starting else "The cluster is running."
    if number is None:
        return "The number is out of range."
    return "" if number else "With 0 nodes there is nothing to start."


def _why_not_resize(wish: ClusterWish | None, state: ClusterState, number: int | None) -> str:
    if wish is None or not wish.up:
        is_stopping = state is ClusterState.STOPPING
        return "The cluster is being deleted." if is_stopping else "The cluster is not running."
    has_nodes = wish.fleet.place.has_nodes
    # A cluster that waits for capacity can be made smaller.
    if state is ClusterState.STARTING and not has_nodes:
        return "The cluster is starting."
    if state not in _RUNNING | {ClusterState.STARTING}:
        return "The cluster is not running."
    if number is None:
        return "The number is out of range."
    asked = wish.fleet.nodes if has_nodes else wish.ranks
    return "Type another number first." if number == asked else ""


def _why_not_delete(wish: ClusterWish | None, state: ClusterState) -> str:
    if wish is not None and wish.up:
        return ""
    if state is ClusterState.STOPPING:
        return "The cluster is being deleted."
    return "The cluster is not running." if state is ClusterState.DOWN else ""


class LocalForm:
    """The number of ranks, and whether they may share cores.

    Args:
        wish: What was asked for before.
        slots: Of this machine.
        usual: Ranks that a new cluster has.
    """

    def __init__(self, wish: ClusterWish | None, slots: int, usual: int) -> None:
        here = wish if wish and not wish.fleet.place.has_nodes else None
        oversubscribe = bool(here and here.oversubscribe) or slots < usual
        self._slots = slots
        self.ranks = widgets.BoundedIntText(
            value=here.ranks if here else usual,
            min=1,
            max=MAX_RANKS if oversubscribe else slots,
            description="Ranks",
            tooltip=f"This machine has {slots} slots",
            continuous_update=True,
            style=STYLE,
        )
        self.oversubscribe = widgets.Checkbox(
            value=oversubscribe,
            description=f"Allow more ranks than the {slots} slots",
            indent=False,
        )
        self.oversubscribe.observe(self._on_oversubscribe, "value")
        self.widget = row(self.ranks, self.oversubscribe)

    def wish(self, nodes: int, min_nodes: int, max_nodes: int, now: float) -> FleetWish:
        """Return None: this machine has no other nodes."""
        return FleetWish()

    def show(self, wish: FleetWish, now: float) -> None:
        """Do nothing: the number of ranks is set at the start."""

    def _on_oversubscribe(self, _: Any) -> None:
        self.ranks.max = MAX_RANKS if self.oversubscribe.value else self._slots
