"""The cluster panel: it writes the same wishes as the magics, and shows the observed state."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from workbench.core.cluster.model import (
    ClusterFact,
    ClusterState,
    ClusterWish,
    ResizeAt,
    shown_state,
)
from workbench.core.cluster.size import Size
from workbench.core.cluster.spending import needs_confirmation
from workbench.core.fleet.form import SettingValue
from workbench.core.fleet.model import FleetWish
from workbench.core.fleet.provider import Provider
from workbench.core.units import count
from workbench.errors import Unknown, WorkbenchError
from workbench.notebook.cell_output import paragraph
from workbench.notebook.forms.cluster_boxes import ClusterBoxes, refusals
from workbench.notebook.forms.cluster_style import state_html
from workbench.notebook.forms.form_fields import enable, fill, read_at_least, show, status_html
from workbench.notebook.forms.hosts_form import HostsForm
from workbench.notebook.forms.market_form import MarketForm
from workbench.notebook.panel_queries import PanelQueries
from workbench.notebook.provider_queries import (
    Background,
    CloudQueries,
    ProviderQueries,
    in_background,
)
from workbench.notebook.run_listing import cluster_status, fleet_html, standing, status_line
from workbench.requests.cluster import ask_cluster, ask_down, ask_extension, ask_size, local_slots
from workbench.store import Store
from workbench.store.disk import full_disk
from workbench.view.cluster_changes import differ, resize_effects
from workbench.view.tables.nodes import FleetNodes, fleet_of, money_line

REFRESH_SECONDS = 0.5
CLOCK_SECONDS = 10.0
_LOCAL_SIZE = ("oversubscribe", "ranks")
_NODES_SIZE = ("nodes", "min_nodes", "max_nodes")
_panels: dict[str, ClusterPanel] = {}


class ClusterPanel(ClusterBoxes):
    """The panel of one cluster, with text and HTML for a page without widgets.

    Args:
        cluster: The cluster's name.
        places: The providers to query.
        background: Runs slow work in a thread.
    """

    def __init__(
        self,
        cluster: str,
        places: ProviderQueries | None = None,
        background: Background = in_background,
    ) -> None:
        self.cluster = cluster
        self._seen, self._drawn = -1, 0.0
        self._over = threading.Event()
        self._drawing = threading.RLock()
        with Store() as store:
            wish = store.cluster_wish(cluster)
        super().__init__(cluster, wish, self._on_delete, self._on_keys)
        self._followed, self._resting = -1, self._numbers()
        self.questions = PanelQueries(self, places or CloudQueries(), background)
        self._connect()
        with Store() as store:
            self.refresh(store)

    def __repr__(self) -> str:
        return f"<ClusterPanel {self._line()}>"

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, Any]:
        shown = self.widget._repr_mimebundle_() or {}
        with Store() as store:
            wish = store.cluster_wish(self.cluster)
            if wish is None or not wish.fleet.place.has_nodes:
                line = status_line(store, self.cluster)
                return {**shown, **paragraph(line, "Provider: this machine.")}
            return {**shown, **cluster_status(store, self.cluster)}

    def read_wish(self) -> FleetWish:
        """Return the nodes requested by the boxes.

        Raises:
            InputError: They are not valid.
        """
        sizes = (self.nodes, self.min_nodes, self.max_nodes)
        nodes, min_nodes, max_nodes = (int(read_at_least(one)) for one in sizes)
        return self.form.wish(nodes, min_nodes, max_nodes, time.time())

    def refresh(self, store: Store) -> None:
        """Show the state in the store."""
        with self._drawing:
            now = time.time()
            wish, fact = store.cluster_wish(self.cluster), store.cluster_fact(self.cluster)
            self._follow(wish, now)
            fleet = fleet_of(store, wish, fact.ranks, now) if wish else None
            state = shown_state(wish, fact)
            self._show_state(state, wish, fact, fleet)
            self._show_buttons(state, wish, now)
            self._show_fleet(fleet, now)
            self.remark.value = status_html(
                full_disk(store.path) or fact.message or self._resize_effect(store)
            )
            self.questions.prove(fleet, fact.state is ClusterState.DOWN)

    def begin(self) -> None:
        """Refresh periodically from a thread, until ``close``."""
        threading.Thread(
            target=self._keep_fresh, name=f"workbench panel of {self.cluster}", daemon=True
        ).start()

    def close(self) -> None:
        """Stop refreshing, and remove the widgets from the page."""
        self._over.set()
        self.widget.close()

    def say(self, sentence: str) -> None:
        """Show a sentence, also to screen readers."""
        self.message.value = status_html(sentence)

    def refresh_now(self) -> None:
        """Show the state in the store; called in any thread."""
        with contextlib.suppress(WorkbenchError), Store() as store:
            self.refresh(store)

    def begin_cluster(self, fleet: FleetWish) -> None:
        """Request the cluster as set in the boxes.

        Raises:
            WorkbenchError: The request is refused.
        """
        ranks, shared = (self.ranks.value, self.oversubscribe.value)
        if fleet.place.has_nodes:
            ranks, shared = 0, False
        with Store() as store:
            ask_cluster(store, ranks, cluster=self.cluster, oversubscribe=shared, fleet=fleet)
        self.say("")
        self.refresh_now()

    def start_nodes(
        self, place: Provider, nodes: int, settings: Mapping[str, SettingValue] | None = None
    ) -> None:
        """Start this number of nodes that cost nothing, as if chosen in the boxes.

        Args:
            place: Their provider, which simulates them.
            settings: Of the provider's own; those left out are as in a new form.

        Raises:
            WorkbenchError: The number is not possible.
        """
        with Store() as store:
            wish = store.cluster_wish(self.cluster)
        if not (wish and wish.up):
            # Stored values have not been shown to the user.
            self._show_wish(FleetWish(place.name))
        self.provider.value, self.nodes.value = place.name, nodes
        if isinstance(self.form, MarketForm):
            self.form.write(place.fields, settings or {})
        self.questions.ask_offers(now=True)
        self._begin()

    def _connect(self) -> None:
        self.provider.observe(self._on_provider, "value")
        self.ranks.observe(self._on_edit, "value")
        self.move_at.observe(self._on_edit, "value")
        for size in (self.nodes, self.min_nodes, self.max_nodes):
            size.observe(self._on_edit, "value")
        for form in self.forms.values():
            if isinstance(form, MarketForm):
                form.observe(self._on_edit, [form.types])
                form.find.on_click(lambda _: self.questions.ask_offers())
            elif isinstance(form, HostsForm):
                form.hosts.observe(self._on_hosts, "value")
                form.read.on_click(lambda _: self._do(self._read_file))
        self.start.on_click(lambda _: self._do(self._begin))
        self.resize.on_click(lambda _: self._do(self._resize))
        self.end.on_click(lambda _: self._do(self._ask_to_delete))
        self.extend.on_click(lambda _: self._do(self._extend))
        self._on_provider(None)

    def _show_wish(self, fleet: FleetWish) -> None:
        self.forms[fleet.provider].show(fleet, time.time())
        if fleet.place.has_nodes:
            sizes = (fleet.nodes, fleet.min_nodes, fleet.max_nodes)
            fill([*zip((self.nodes, self.min_nodes, self.max_nodes), sizes, strict=True)])

    def _numbers(self) -> dict[str, Any]:
        """Return the values of the boxes of the cluster's size."""
        return {name: getattr(self, name).value for name in (*_LOCAL_SIZE, *_NODES_SIZE)}

    def _follow(self, wish: ClusterWish | None, now: float) -> None:
        """Update the boxes with requests made elsewhere, except those being edited."""
        is_first, revision = self._followed < 0, wish.revision if wish else 0
        if wish is None or revision == self._followed:
            self._followed = revision
            return
        self._followed = revision
        # Of a deleted cluster, neither provider nor expiry.
        fleet = wish.fleet if wish.up else replace(wish.fleet, expires=0.0)
        if is_first or (wish.up and self.provider.value != fleet.provider):
            self.forms[fleet.provider].show(fleet, now)
        if wish.up:
            self.provider.value = fleet.provider
        for name, value in _size_of(wish).items():
            box, rested = getattr(self, name), self._resting[name]
            self._resting[name] = value
            if is_first or box.value == rested:
                box.value = value

    def _show_state(
        self,
        state: ClusterState,
        wish: ClusterWish | None,
        fact: ClusterFact,
        fleet: FleetNodes | None,
    ) -> None:
        asked = wish.ranks if wish and wish.up else 0
        ranks = f"{fact.ranks} of {count(asked, 'rank')}" if asked else count(fact.ranks, "rank")
        is_there = state is not ClusterState.DOWN
        sizes = f"{ranks}{standing(fleet)}" if fleet and is_there else ""
        self.state.value = state_html(state, sizes)

    def _show_buttons(self, state: ClusterState, wish: ClusterWish | None, now: float) -> None:
        is_up = wish is not None and wish.up
        number = self._number()
        why = refusals(wish, state, number)
        form = self._refresh_form(now)
        busy = "Another query is still running." if self.questions.is_busy else ""
        name, where = self.cluster, self.place.label
        thing = "node" if self.place.has_nodes else "rank"
        size = count(number or 0, thing)
        may_start = f"Start cluster {name}: {size}, {where}"
        enable(self.start, why.start or busy or form, may_start, is_main=True)
        enable(self.resize, why.resize or busy, f"Resize cluster {name} to {size}", is_main=True)
        enable(self.end, why.delete, f"Delete cluster {name} with its ranks and nodes")
        show(self.extension, is_up and wish is not None and wish.fleet.expires > 0)
        self.provider.disabled = is_up
        # The requirements are chosen at the start; afterwards they are folded.
        show(self.box, not (is_up and isinstance(self.form, MarketForm)))

    def _resize_effect(self, store: Store) -> str:
        """Return what a resize to the number in the box means for a run; empty for nothing."""
        effects = {} if self.resize.disabled else resize_effects(store, self.cluster)
        show(self.move_at, differ(effects))
        return effects.get(self.move_at.value, effects.get(ResizeAt.STEP, ""))

    def _number(self) -> int | None:
        """Return the number of ranks or nodes in the box; None if it is not valid."""
        number = (self.nodes if self.place.has_nodes else self.ranks).value
        return number if number >= 0 else None

    def _refresh_form(self, now: float) -> str:
        """Show the price of the boxes' values, and return why it cannot be started, or empty."""
        if not isinstance(self.form, MarketForm):
            return ""
        return self.form.refresh(self.nodes.value, self.min_nodes.value, self.max_nodes.value, now)

    def _show_fleet(self, fleet: FleetNodes | None, now: float) -> None:
        self.price.value = money_line(fleet, now) if fleet and _costs(fleet) else ""
        show(self.price, bool(self.price.value))
        self.facts.value = fleet_html(fleet) if fleet and fleet.wish.fleet.place.has_nodes else ""

    def _begin(self) -> None:
        fleet = self.read_wish()
        if fleet.place.lists_hosts:
            self.questions.ask_keys(fleet)
        else:
            self.begin_cluster(fleet)

    def _resize(self) -> None:
        with Store() as store:
            wish = store.cluster_wish(self.cluster)
            if wish is None or not wish.fleet.place.has_nodes:
                size, shared = Size(ranks=self.ranks.value), self.oversubscribe.value
            else:
                size, shared = Size(nodes=int(read_at_least(self.nodes))), False
            matters = differ(resize_effects(store, self.cluster))
            at = self.move_at.value if matters else ResizeAt.STEP
            if wish is not None and needs_confirmation(wish, size.nodes or 0):
                self.questions.ask_size(size, at)
                return
            ask_size(store, size, cluster=self.cluster, oversubscribe=shared, at=at)
        self.refresh_now()

    def _extend(self) -> None:
        with Store() as store:
            seconds = 3600 * read_at_least(self.hours)
            ask_extension(store, seconds, cluster=self.cluster, now=time.time())
            self.refresh(store)

    def _ask_to_delete(self) -> None:
        with Store() as store:
            wish = store.cluster_wish(self.cluster)
            if wish is None:
                raise Unknown(
                    f"There is no cluster called {self.cluster!r}", "nothing was deleted."
                )
            fleet = fleet_of(store, wish, 0, time.time())
            runs = [run.wish.name for run in store.list_unfinished(self.cluster)]
        self.delete.ask(fleet, runs)

    def _on_delete(self) -> None:
        self._do(self._delete)

    def _delete(self) -> None:
        with Store() as store:
            ask_down(store, cluster=self.cluster)
            self.questions.expect_proof()
            self.refresh(store)

    def _on_keys(self, is_yes: bool) -> None:
        self._do(lambda: self.questions.answer_keys(is_yes))

    def _read_file(self) -> None:
        form = self.form
        assert isinstance(form, HostsForm)
        self.say(f"{count(form.read_file(), 'host')} read.")

    def _do(self, act: Any) -> None:
        self.say("")  # of the previous action
        try:
            act()
        except WorkbenchError as error:
            self.say(str(error))

    def _on_provider(self, change: Any) -> None:
        if change is not None:
            self.say("")  # what was said is of the other provider
        show(self.sizes, self.place.has_nodes)
        self.box.children = (self.form.widget,)
        self.refresh_now()

    def _on_hosts(self, _: Any) -> None:
        form = self.form
        if not isinstance(form, HostsForm):
            return
        if number := form.count():
            self.nodes.value = number

    def _on_edit(self, _: Any) -> None:
        self.refresh_now()

    def _keep_fresh(self) -> None:
        # The store may disappear under an idle panel; the next click reports it.
        with contextlib.suppress(WorkbenchError), Store() as store:
            while not self._over.wait(REFRESH_SECONDS):
                version, now = store.data_version(), time.monotonic()
                if version != self._seen or now - self._drawn > CLOCK_SECONDS:
                    self._seen, self._drawn = version, now
                    self.refresh(store)

    def _line(self) -> str:
        with Store() as store:
            return status_line(store, self.cluster)


def _size_of(wish: ClusterWish) -> dict[str, Any]:
    """Return the boxes for the size of ``wish``, with their values."""
    if not wish.fleet.place.has_nodes:  # sharing first: it bounds the ranks
        return {"oversubscribe": wish.oversubscribe or local_slots() < 2, "ranks": wish.ranks}
    return {name: getattr(wish.fleet, name) for name in _NODES_SIZE}


def _costs(fleet: FleetNodes) -> bool:
    """Whether there is a price or an expiry to show."""
    is_there = fleet.wish.up or bool(fleet.nodes)
    return is_there and (fleet.bill is not None or fleet.wish.fleet.expires > 0)


def panel_for(cluster: str) -> ClusterPanel:
    """Return a panel of ``cluster``, which replaces the previous one."""
    former = _panels.pop(cluster, None)
    if former:
        former.close()
    panel = _panels[cluster] = ClusterPanel(cluster)
    panel.begin()
    return panel


def close_all() -> None:
    """Close every panel of this process."""
    while _panels:
        _panels.popitem()[1].close()
