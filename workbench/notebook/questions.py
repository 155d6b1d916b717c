"""Put a panel's slow questions to the places, and their answers on the panel."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from workbench.core.fleet import FleetWish, Place
from workbench.core.ladder import purchase
from workbench.errors import InputError, PriceQuestion, WorkbenchError
from workbench.notebook.deletion import proof
from workbench.notebook.market_form import MarketForm
from workbench.notebook.places import Background, Places
from workbench.store import Store
from workbench.store.asking import ask_more
from workbench.view.nodes import Fleet
from workbench.view.phrases import count, dollars

if TYPE_CHECKING:
    from workbench.notebook.cluster_panel import ClusterPanel


class Questions:
    """One question at a time; the panel stays alive meanwhile.

    Args:
        panel: Where the answers go.
        places: Whom to ask.
        background: Does what takes long.
    """

    def __init__(self, panel: ClusterPanel, places: Places, background: Background) -> None:
        self._panel, self._places, self._background = panel, places, background
        self._waiting: FleetWish | None = None
        self._to_prove = False
        self._spent = 0.0
        self.is_busy = False

    def ask_offers(self, *, now: bool = False) -> None:
        """Ask what fits, then whether all of it is allowed.

        Args:
            now: Whether to return only when it is known, as the panel's buttons never do.
        """
        form = self._panel.form
        assert isinstance(form, MarketForm)

        def ask() -> None:
            fleet = self._panel.asked()
            market = self._places.offers(fleet)
            form.judge(())
            form.take(fleet, market.region, market.offers)
            # The region is known only now, and a type may no longer be on offer.
            fleet = self._panel.asked()
            rung = form.first_rung(fleet)
            if rung is None:
                self._panel.say(form.summary(fleet))
                return
            trial = purchase(self._panel.cluster, "trial", 0, rung)
            form.judge(self._places.permissions(fleet, trial))
            self._panel.say("Nothing was bought. Start buys what stands in the total.")

        background = _at_once if now else self._background
        self._ask("Asking what fits, and whether you may have it…", ask, background)

    def ask_keys(self, fleet: FleetWish) -> None:
        """Start on hosts, once all their keys are known."""

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

        self._ask(f"Asking {count(len(fleet.hosts), 'host')} who they are…", ask)

    def ask_more(self, nodes: int, agreed: float | None = None) -> None:
        """Ask for another number of nodes; what costs more is done with a yes only.

        Args:
            agreed: $/h of all nodes to which the person said yes.
        """

        def ask() -> None:
            cluster, market, now = self._panel.cluster, self._places.offers, time.time()
            try:
                with Store() as store:
                    ask_more(store, nodes, cluster=cluster, now=now, agreed=agreed, market=market)
            except PriceQuestion as question:
                price = question.price
                self._panel.more.ask(str(question), lambda: self.ask_more(nodes, price))
                self._panel.say("Nothing was bought yet.")
            else:
                self._panel.say(f"Asked for {count(nodes, 'node')}.")

        self._ask(f"Asking what {count(nodes, 'node')} cost…", ask)

    def answer_keys(self, is_yes: bool) -> None:
        """Keep the keys that were shown, and look again: now one can log in."""
        keys, fleet = self._panel.keys.keys, self._waiting
        self._panel.keys.ask(())
        if not is_yes or fleet is None:
            self._panel.say("Nothing was started, and no key was kept.")
            return
        self._places.trust(self._panel.cluster, [key.line for key in keys])
        self.ask_keys(fleet)

    def expect_proof(self) -> None:
        """Ask what is left, once the cluster is down."""
        self._to_prove = True

    def prove(self, fleet: Fleet | None, is_down: bool) -> None:
        """Say what is left of a cluster that was deleted here, and what it cost."""
        if fleet and fleet.bill and fleet.nodes:
            self._spent = fleet.bill.spent
        if not (self._to_prove and is_down and fleet) or self.is_busy or fleet.wish.up:
            return
        self._to_prove = False
        wish, cluster = fleet.wish.fleet, fleet.wish.name
        if wish.place is Place.HOSTS:
            self._panel.say("The ranks have ended; the hosts stay as they were.")
            return

        def ask() -> None:
            left = self._places.leftovers(cluster, wish)
            verb = "would have cost" if wish.place is Place.FAKE else "cost"
            cost = f" It {verb} {dollars(self._spent)}." if self._spent else ""
            self._panel.say(proof(cluster, wish.place, left, time.time()) + cost)

        self._ask("Asking what is left…", ask)

    def _ask(
        self, sentence: str, ask: Callable[[], None], background: Background | None = None
    ) -> None:
        if self.is_busy:
            self._panel.say("The question before this one is not answered yet; wait for it.")
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
