"""Size a cluster with the mouse: the same wish as the magics', and the facts beside it."""

from __future__ import annotations

import contextlib
import threading
import time
from html import escape
from typing import Any

from workbench.core.cluster import ClusterState, ClusterWish
from workbench.core.fleet import FleetWish, Place
from workbench.core.growth import needs_a_yes
from workbench.errors import WorkbenchError
from workbench.notebook.buttons import Buttons, sensible
from workbench.notebook.cluster_boxes import ClusterBoxes
from workbench.notebook.fields import at_least, said, show
from workbench.notebook.fleet_view import fleet_html, price_html, standing
from workbench.notebook.hosts_form import HostsForm
from workbench.notebook.market_form import MarketForm
from workbench.notebook.page import paragraph
from workbench.notebook.places import AskedPlaces, Background, Places, in_background
from workbench.notebook.questions import Questions
from workbench.notebook.status import cluster_status, status_line
from workbench.store import Store
from workbench.store.asking import ask_longer
from workbench.store.wishes import ask_cluster, ask_down, ask_nodes
from workbench.view.nodes import Fleet, fleet_of
from workbench.view.phrases import count

__all__ = ["Buttons", "ClusterPanel", "close_all", "panel_for", "sensible"]

REFRESH_SECONDS = 0.5
CLOCK_SECONDS = 10.0
_panels: dict[str, ClusterPanel] = {}


class ClusterPanel(ClusterBoxes):
    """One cluster as widgets, with text and HTML for a page that cannot show them.

    Args:
        cluster: The cluster's name.
        places: Whom to ask what is on offer.
        background: Does what takes long.
    """

    def __init__(
        self,
        cluster: str,
        places: Places | None = None,
        background: Background = in_background,
    ) -> None:
        self.cluster = cluster
        self._seen, self._drawn = -1, 0.0
        self._said = ""
        self._over = threading.Event()
        with Store() as store:
            wish = store.cluster_wish(cluster)
        super().__init__(wish, self._on_delete, self._on_keys)
        self.questions = Questions(self, places or AskedPlaces(), background)
        self._connect()
        if wish is not None:
            self._take_up(wish)
        with Store() as store:
            self.refresh(store)

    def __repr__(self) -> str:
        return f"<ClusterPanel {self._line()}>"

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, Any]:
        shown = self.widget._repr_mimebundle_() or {}
        with Store() as store:
            wish = store.cluster_wish(self.cluster)
            if wish is None or wish.fleet.place is Place.LOCAL:
                line = status_line(store, self.cluster)
                return {**shown, **paragraph(line, "Where: this machine. Price: free.")}
            return {**shown, **cluster_status(store, self.cluster)}

    def asked(self) -> FleetWish:
        """Return what the boxes ask for.

        Raises:
            InputError: They ask for what cannot be.
        """
        size = int(at_least(self.nodes)), int(at_least(self.least)), int(at_least(self.most))
        return self.form.wish(*size, time.time())

    def refresh(self, store: Store) -> None:
        """Show what the store says."""
        now = time.time()
        wish, fact = store.cluster_wish(self.cluster), store.cluster_fact(self.cluster)
        fleet = fleet_of(store, wish, fact.ranks, now) if wish else None
        buttons = sensible(wish, fact, self.ranks.value, self.nodes.value)
        may_start = self._refresh_form(now) and buttons.start and not self.questions.is_busy
        self.start.disabled = not may_start
        self.resize.disabled = not buttons.resize
        self.stop.disabled = not buttons.stop
        self.extend.disabled = not buttons.extend
        is_up = bool(wish and wish.up)
        self.where.disabled = is_up
        # What one needs is chosen at the start; then there is more to see below.
        show(self.box, not (is_up and isinstance(self.form, MarketForm)))
        asked = wish.ranks if wish and is_up else 0
        is_local = wish is None or wish.fleet.place is Place.LOCAL
        is_told = bool(asked) or is_local
        ranks = f"{fact.ranks} of {asked} ranks" if is_told else count(fact.ranks, "rank")
        nodes = standing(fleet) if fleet else ""
        self.state.value = f"<b>{escape(str(fact.state))}</b>, {ranks}{nodes}"
        self._show_fleet(fleet, now)
        if fact.message != self._said:
            self._said = fact.message
            self.message.value = escape(fact.message)
        self.questions.prove(fleet, fact.state is ClusterState.DOWN)

    def begin(self) -> None:
        """Refresh by and by, from a thread, until ``close``."""
        threading.Thread(
            target=self._keep_fresh, name=f"workbench panel of {self.cluster}", daemon=True
        ).start()

    def close(self) -> None:
        """Refresh no longer, and take the widgets off the page."""
        self._over.set()
        self.widget.close()

    def say(self, sentence: str) -> None:
        """Show a sentence, and have it read out."""
        self.message.value = said(sentence)

    def refresh_now(self) -> None:
        """Show what the store says, whichever thread asks."""
        with contextlib.suppress(WorkbenchError), Store() as store:
            self.refresh(store)

    def begin_cluster(self, fleet: FleetWish) -> None:
        """Ask for the cluster as the boxes say.

        Raises:
            WorkbenchError: It cannot be.
        """
        ranks, shared = (self.ranks.value, self.oversubscribe.value)
        if fleet.place is not Place.LOCAL:
            ranks, shared = 0, False
        with Store() as store:
            ask_cluster(store, ranks, cluster=self.cluster, oversubscribe=shared, fleet=fleet)
        size = f"{ranks} ranks" if fleet.place is Place.LOCAL else f"{fleet.nodes} nodes"
        self.say(f"Asked for {size}.")
        self.refresh_now()

    def rehearse(self, nodes: int, link: float = 0.0) -> None:
        """Start with as many pretended nodes, as if somebody had chosen them and pressed Start.

        Args:
            link: Gbit/s that join them; 0 for what this machine can.

        Raises:
            WorkbenchError: There cannot be as many.
        """
        self.where.value, self.nodes.value = Place.FAKE, nodes
        if isinstance(self.form, MarketForm):
            self.form.extras.link.value = link
        self.questions.ask_offers(now=True)
        self._begin()

    def _connect(self) -> None:
        self.where.observe(self._on_where, "value")
        self.ranks.observe(self._on_edit, "value")
        for size in (self.nodes, self.least, self.most):
            size.observe(self._on_edit, "value")
        for form in self.forms.values():
            if isinstance(form, MarketForm):
                form.observe(self._on_edit)
                form.find.on_click(lambda _: self.questions.ask_offers())
            elif isinstance(form, HostsForm):
                form.hosts.observe(self._on_hosts, "value")
                form.read.on_click(lambda _: self._do(self._read_file))
        self.start.on_click(lambda _: self._do(self._begin))
        self.resize.on_click(lambda _: self._do(self._resize))
        self.stop.on_click(lambda _: self._do(self._stop))
        self.extend.on_click(lambda _: self._do(self._extend))
        self._on_where(None)

    def _take_up(self, wish: ClusterWish) -> None:
        """Show in the boxes what was asked for before."""
        self.where.value = wish.fleet.place
        self.form.show(wish.fleet, time.time())
        if wish.fleet.place is not Place.LOCAL:
            self.nodes.value, self.least.value = wish.fleet.nodes, wish.fleet.least
            self.most.value = wish.fleet.most

    def _refresh_form(self, now: float) -> bool:
        """Show what the boxes come to, and tell whether one may start with it."""
        if not isinstance(self.form, MarketForm):
            return True
        return self.form.refresh(self.nodes.value, self.least.value, self.most.value, now)

    def _show_fleet(self, fleet: Fleet | None, now: float) -> None:
        here = self.where.value is Place.LOCAL
        self.stop.description = "Stop" if here else "Delete everything"
        show(self.longer, not self.extend.disabled)
        nothing = "free" if here else "nothing is paid yet"
        self.price.value = price_html(fleet, now) if fleet else nothing
        self.facts.value = (
            fleet_html(fleet) if fleet and fleet.wish.fleet.place is not Place.LOCAL else ""
        )

    def _begin(self) -> None:
        fleet = self.asked()
        if fleet.place is Place.HOSTS:
            self.questions.ask_keys(fleet)
        else:
            self.begin_cluster(fleet)

    def _resize(self) -> None:
        with Store() as store:
            wish = store.cluster_wish(self.cluster)
            if wish is None or wish.fleet.place is Place.LOCAL:
                self.begin_cluster(FleetWish())
                return
            nodes = int(at_least(self.nodes))
            if needs_a_yes(wish, nodes):
                self.questions.ask_more(nodes)
                return
            ask_nodes(store, nodes, cluster=self.cluster)
        self.say(f"Asked for {self.nodes.value} nodes.")
        self.refresh_now()

    def _extend(self) -> None:
        with Store() as store:
            seconds = 3600 * at_least(self.hours)
            ask_longer(store, seconds, cluster=self.cluster, now=time.time())
            self.say(f"The cluster lives {self.hours.value:g} h longer.")
            self.refresh(store)

    def _stop(self) -> None:
        with Store() as store:
            wish = store.cluster_wish(self.cluster)
            if wish is None or wish.fleet.place is Place.LOCAL:
                ask_down(store, cluster=self.cluster)
                self.message.value = "Asked the cluster to stop."
                self.refresh(store)
                return
            fleet = fleet_of(store, wish, 0, time.time())
            runs = [run.wish.name for run in store.unfinished(self.cluster)]
        self.delete.ask(fleet, runs)

    def _on_delete(self) -> None:
        self._do(self._delete)

    def _delete(self) -> None:
        with Store() as store:
            ask_down(store, cluster=self.cluster)
            self.questions.expect_proof()
            self.say("Asked for everything to be deleted.")
            self.refresh(store)

    def _on_keys(self, is_yes: bool) -> None:
        self._do(lambda: self.questions.answer_keys(is_yes))

    def _read_file(self) -> None:
        form = self.forms[Place.HOSTS]
        assert isinstance(form, HostsForm)
        self.say(f"{form.read_file()} hosts were read.")

    def _do(self, act: Any) -> None:
        try:
            act()
        except WorkbenchError as error:
            self.say(str(error))

    def _on_where(self, _: Any) -> None:
        show(self.sizes, self.where.value is not Place.LOCAL)
        self.box.children = (self.form.widget,)
        self.refresh_now()

    def _on_hosts(self, _: Any) -> None:
        form = self.forms[Place.HOSTS]
        assert isinstance(form, HostsForm)
        if number := form.count():
            self.nodes.value = number

    def _on_edit(self, _: Any) -> None:
        self.refresh_now()

    def _keep_fresh(self) -> None:
        # The store may go away under an idle panel; the next click says so, this thread need not.
        with contextlib.suppress(WorkbenchError), Store() as store:
            while not self._over.wait(REFRESH_SECONDS):
                version, now = store.data_version(), time.monotonic()
                if version != self._seen or now - self._drawn > CLOCK_SECONDS:
                    self._seen, self._drawn = version, now
                    self.refresh(store)

    def _line(self) -> str:
        with Store() as store:
            return status_line(store, self.cluster)


def panel_for(cluster: str) -> ClusterPanel:
    """Return a panel of ``cluster``, which takes the place of the one shown before."""
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
