"""The stored record of a cluster's nodes, purchases and costs."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from workbench.core.fleet.cost import Prices, meter_node, update_prices, with_traffic
from workbench.core.fleet.model import Machine, Node, NodeState, Offer
from workbench.core.fleet.purchases import PurchaseOutcome, PurchaseRecord
from workbench.core.performance.bandwidth import BandwidthSurvey, Pair
from workbench.core.supervisor.log_messages import node_moved
from workbench.errors import StoreUnavailable
from workbench.store import Store
from workbench.store.fleet import Account

log = logging.getLogger("workbench.supervisor")
METER_SECONDS = 5.0


class Ledger:
    """The store's nodes and purchases of one cluster, also kept in memory.

    A node's cost follows from its prices over time and is computed each time; once the node is
    gone, its account is closed. So nothing is counted twice.
    Changes are made in memory first, and written when the store takes them: nodes must be deleted
    with a full disk too. Only a purchase has to be written before its call.
    Traffic alone is added up, each time that the meter is read; if the process is killed, the last
    ``METER_SECONDS`` of it are not counted.

    Args:
        received: Returns the bytes received from nodes since the last call, by address.
    """

    def __init__(
        self, cluster: str, store: Store, received: Callable[[], Mapping[str, int]] = dict
    ) -> None:
        self._cluster = cluster
        self._store = store
        self._received = received
        self._revision: int | None = None
        self._metered = 0.0
        self._links: Mapping[tuple[str, str], tuple[float, float]] = {}
        self.account = Account(0.0, 0.0, 0.0)
        self.offers: tuple[Offer, ...] = ()
        self.credited = 0.0  # seconds within which a node that was interrupted is free
        self.nodes: dict[str, Node] = {}
        self.purchases: dict[str, PurchaseRecord] = {}
        self._prices: dict[str, Prices] = {}
        self._unwritten: dict[str, Node] = {}
        self._unwritten_prices: list[tuple[str, float, float]] = []
        self._unwritten_purchases: dict[str, PurchaseRecord] = {}

    def __repr__(self) -> str:
        return (
            f"<Ledger of {self._cluster}: {len(self.nodes)} nodes, {len(self.purchases)} purchases>"
        )

    def open(self, revision: int, now: float) -> None:
        """Read the stored record, and record whether there is a new wish."""
        if self._revision is None:
            self.nodes = {n.id: n for n in self._store.fleets.nodes(self._cluster, gone=True)}
            self.purchases = {
                o.purchase.token: o for o in self._store.fleets.purchases(self._cluster)
            }
            self._prices = self._store.fleets.prices(self._cluster)
        self._write()
        if self._revision != revision:
            try:
                self.account = self._store.fleets.account(self._cluster, revision, now)
                self._revision = revision
            except StoreUnavailable:
                self.account = replace(self.account, founded=self.account.founded or now, asked=now)
                self._revision = self._revision or 0

    def node(self, id_: str) -> Node | None:
        """Return a node as it is recorded; None if it is not."""
        return self.nodes.get(id_)

    def put_purchase(
        self, record: PurchaseRecord, user_data: str = "", tags: Sequence[tuple[str, str]] = ()
    ) -> None:
        """Record a purchase.

        Raises:
            StoreUnavailable: It could not be written before its call.
        """
        if record.outcome is PurchaseOutcome.WRITTEN:
            self._store.fleets.put_purchase(record, user_data, tags)
            self._unwritten_purchases.pop(record.purchase.token, None)
        else:
            self._unwritten_purchases[record.purchase.token] = record
        self.purchases[record.purchase.token] = record
        self._write()

    def read_sent(self, token: str) -> tuple[str, tuple[tuple[str, str], ...]] | None:
        """Return what the call of a recorded purchase sends; None for a new purchase."""
        return (
            self._store.fleets.read_sent(self._cluster, token) if token in self.purchases else None
        )

    def put(self, node: Node, machine: Machine | None, now: float) -> None:
        """Record a node, with its cost until now.

        Args:
            machine: As listed by the provider; None if it is not listed.
        """
        before = self.nodes.get(node.id)
        if before is not None:
            node = replace(node, traffic=before.traffic)
        if before is not None and _apart_from_money(node, before) == before:
            return  # ``meter`` writes that
        if before is not None and before.state is node.state is NodeState.GONE:
            node = replace(node, spent=before.spent, price=0.0)
        else:
            self._reprice(node, machine, now)
            node = self._add_cost(node, machine, now)
        self._note(node)
        self._write()
        if sentence := node_moved(before.state if before else None, node):
            log.info("%s", sentence)

    def meter(self, machines: Mapping[str, Machine], now: float, here_price: float = 0.0) -> None:
        """Compute the cost of all nodes until now; once in a while is enough.

        Args:
            here_price: See ``count_traffic``.
        """
        if now - self._metered < METER_SECONDS:
            return
        self._metered = now
        self.count_traffic(here_price)
        for node in [*self.nodes.values()]:
            if self._is_open(node):
                machine = machines.get(node.id)
                self._reprice(node, machine, now)
                counted = self._add_cost(node, machine, now)
                if counted != node:
                    self._note(counted)
        self._write()

    def count_traffic(self, here_price: float) -> None:
        """Add the traffic from the nodes to here since the last call to their costs.

        Args:
            here_price: $ per GB.
        """
        for address, nbytes in self._received().items():
            known = [node for node in self.nodes.values() if address and node.address == address]
            if known and here_price:
                # The address may have belonged to an earlier node.
                node = max(known, key=lambda n: (n.state is not NodeState.GONE, n.since))
                self._note(with_traffic(node, nbytes / 1e9 * here_price))

    def keep_links(self, links: Mapping[tuple[str, str], tuple[float, float]], now: float) -> None:
        """Record what was measured between nodes, unless it is recorded."""
        if not links or links is self._links:
            return
        pairs = tuple(Pair(*ends, *link) for ends, link in links.items())
        nodes = tuple(dict.fromkeys(pair.source for pair in pairs))
        with contextlib.suppress(StoreUnavailable):  # in the next turn then
            self._store.surveys.keep_network(self._cluster, BandwidthSurvey(now, nodes, pairs))
            self._links = links

    def settle(self, *, paid: bool) -> None:
        """Close the account: the cluster is fully deleted.

        Args:
            paid: Whether its nodes were paid for, and not simulated.

        Raises:
            StoreUnavailable: Its cost could not be written; try again.
        """
        self._write(must=True)
        self._store.fleets.settle(self._cluster, paid=paid)
        self._revision = None

    # -- inside

    def _note(self, node: Node) -> None:
        self.nodes[node.id] = self._unwritten[node.id] = node

    def _write(self, *, must: bool = False) -> None:
        """Write what is not written yet, as far as the store takes it."""
        try:
            if self._unwritten_prices:
                self._store.fleets.put_prices(self._cluster, self._unwritten_prices)
                self._unwritten_prices.clear()
            if self._unwritten:
                self._store.fleets.put_nodes(self._cluster, self._unwritten.values())
                self._unwritten.clear()
            for token, record in [*self._unwritten_purchases.items()]:
                self._store.fleets.put_purchase(record)
                del self._unwritten_purchases[token]
        except StoreUnavailable:
            if must:
                raise

    def _reprice(self, node: Node, machine: Machine | None, now: float) -> None:
        before = self._prices.get(node.id, ())
        price = machine.price if machine and not machine.ended else 0.0
        if not price and not before:
            price = node.price or self._find_offered_price(node, "price")
        if not price or not node.launched:
            return
        prices = update_prices(before, price, now if before else node.launched)
        if prices != before:
            self._unwritten_prices.append((node.id, *prices[-1]))
            self._prices[node.id] = prices

    def _find_offered_price(self, node: Node, name: str) -> float:
        """Return the $/h of a node that ended before its own price was known."""
        found = [o for o in self.offers if (o.type, o.zone) == (node.type, node.zone)]
        return float(getattr(found[0], name)) if found else 0.0

    def _is_open(self, node: Node) -> bool:
        """Return whether its cost may still grow."""
        return bool(node.launched) and (
            node.state is not NodeState.GONE or node.id not in self._prices
        )

    def _add_cost(self, node: Node, machine: Machine | None, now: float) -> Node:
        prices = self._prices.get(node.id, ())
        ended = machine.ended if machine else 0.0
        until = min(now, ended) if ended else now
        taken = machine is not None and machine.interrupted
        if not node.extra_price:
            node = replace(node, extra_price=self._find_offered_price(node, "extra_price"))
        return meter_node(node, prices, until, interrupted=taken, credited=self.credited)


def _apart_from_money(node: Node, before: Node) -> Node:
    return replace(node, price=before.price, spent=before.spent)
