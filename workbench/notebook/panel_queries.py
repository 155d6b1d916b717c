"""Run a panel's slow queries to providers, and show their answers on the panel."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Protocol

from workbench.core.cluster.model import ResizeAt
from workbench.core.cluster.size import Size
from workbench.core.fleet.fallbacks import purchase
from workbench.core.fleet.model import FleetWish
from workbench.core.units import count
from workbench.errors import InputError, PriceQuestion, WorkbenchError
from workbench.notebook.confirm import Confirmation, proof
from workbench.notebook.forms.hosts_form import KeyQuestion
from workbench.notebook.forms.market_form import MarketForm
from workbench.notebook.provider_queries import Background, ProviderQueries
from workbench.requests.cluster import ask_size
from workbench.store import Store
from workbench.view.tables.nodes import FleetNodes
from workbench.view.text import dollars


class QueryPanel(Protocol):
    """Shows questions and answers; see ``ClusterPanel``."""

    cluster: str
    keys: KeyQuestion
    more: Confirmation

    @property
    def form(self) -> object:
        """The form of the chosen provider."""

    def read_wish(self) -> FleetWish:
        """Return what the boxes ask for."""

    def say(self, sentence: str) -> None:
        """Show a sentence."""

    def begin_cluster(self, fleet: FleetWish) -> None:
        """Start the cluster."""

    def refresh_now(self) -> None:
        """Show the present state."""


class PanelQueries:
    """The panel's queries, one at a time, in the background.

    Args:
        panel: Shows the answers.
        places: The providers to query.
        background: Runs slow work in a thread.
    """

    def __init__(self, panel: QueryPanel, places: ProviderQueries, background: Background) -> None:
        self._panel, self._places, self._background = panel, places, background
        self._waiting: FleetWish | None = None
        self._to_prove = False
        self._spent = 0.0
        self.is_busy = False

    def ask_offers(self, *, now: bool = False) -> None:
        """Query the offers that fit, then the permissions.

        Args:
            now: Whether to wait for the answer, unlike the panel's buttons.
        """
        form = self._panel.form
        assert isinstance(form, MarketForm)

        def ask() -> None:
            fleet = self._panel.read_wish()
            market = self._places.offers(fleet)
            form.judge(())
            form.take(fleet, market.region, market.offers)
            # The region is known only now, and a type may no longer be offered.
            fleet = self._panel.read_wish()
            candidate = form.first_candidate(fleet)
            if candidate is None:
                self._panel.say(form.summary(fleet))
                return
            trial = purchase(self._panel.cluster, "trial", 0, candidate)
            form.judge(self._places.permissions(fleet, trial))
            self._panel.say("Nothing has been bought yet; buy these nodes with Start.")

        background = _at_once if now else self._background
        self._ask("Fetching prices, and checking quota and permissions…", ask, background)

    def ask_keys(self, fleet: FleetWish) -> None:
        """Start on hosts, after all their keys are known."""

        def ask() -> None:
            answers = self._places.contact(fleet.hosts, self._panel.cluster)
            unknown = [one for one in answers if not one.known and one.line]
            failed = [one for one in answers if one.error]
            if failed and not unknown:
                raise InputError(failed[0].error)
            self._waiting = fleet
            self._panel.keys.ask(unknown)
            if unknown:
                self._panel.say(f"{count(len(unknown), 'host key')} to compare.")
            else:
                self._panel.begin_cluster(fleet)

        self._ask(f"Fetching the keys of {count(len(fleet.hosts), 'host')}…", ask)

    def ask_size(self, size: Size, at: ResizeAt, agreed: float | None = None) -> None:
        """Ask for another size; what costs more is done with a yes only.

        Args:
            at: When the run moves.
            agreed: The confirmed $/h of all nodes.
        """

        def ask() -> None:
            cluster, market = self._panel.cluster, self._places.offers
            try:
                with Store() as store:
                    ask_size(store, size, cluster=cluster, at=at, agreed=agreed, market=market)
            except PriceQuestion as question:
                price = question.price
                self._panel.more.ask(str(question), lambda: self.ask_size(size, at, price))
                self._panel.say("Nothing has been bought yet.")
            else:
                self._panel.say("")

        self._ask(f"Fetching the price of {size}…", ask)

    def answer_keys(self, is_yes: bool) -> None:
        """Store the shown keys, and probe the hosts again, now with a login."""
        keys, fleet = self._panel.keys.keys, self._waiting
        self._panel.keys.ask(())
        if not is_yes or fleet is None:
            self._panel.say("Nothing was started, and no key is trusted.")
            return
        self._places.trust(self._panel.cluster, [key.line for key in keys])
        self.ask_keys(fleet)

    def expect_proof(self) -> None:
        """Query what is left, after the cluster is down."""
        self._to_prove = True

    def prove(self, fleet: FleetNodes | None, is_down: bool) -> None:
        """Show what is left of a deleted cluster, and what it cost."""
        if fleet and fleet.bill and fleet.nodes:
            self._spent = fleet.bill.spent
        if not (self._to_prove and is_down and fleet) or self.is_busy or fleet.wish.up:
            return
        self._to_prove = False
        wish, cluster = fleet.wish.fleet, fleet.wish.name
        if not wish.place.has_nodes:
            return
        if wish.place.lists_hosts:
            self._panel.say("The ranks have ended; the hosts keep running.")
            return

        def ask() -> None:
            left = self._places.leftovers(cluster, wish)
            verb = wish.place.costs
            cost = f" It {verb} {dollars(self._spent)}." if self._spent else ""
            self._spent = 0.0
            self._panel.say(proof(cluster, wish.place, left, time.time()) + cost)

        self._ask("Checking that nothing is left…", ask)

    def _ask(
        self, sentence: str, ask: Callable[[], None], background: Background | None = None
    ) -> None:
        if self.is_busy:
            self._panel.say("Another query is still running; wait for its answer.")
            return
        self.is_busy = True
        self._panel.say(sentence)

        def answer() -> None:
            try:
                ask()
            except WorkbenchError as error:
                self._panel.say(str(error))
            finally:
                self.is_busy = False
                self._panel.refresh_now()

        (background or self._background)(answer)


def _at_once(work: Callable[[], None]) -> None:
    work()
