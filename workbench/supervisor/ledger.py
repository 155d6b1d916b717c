"""What is written down of a cluster's nodes: each of them, each purchase, and the money."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from workbench.core.cost import Prices, metered, repriced
from workbench.core.fleet import Machine, Node, NodeState, Offer
from workbench.core.orders import Order
from workbench.store import Store
from workbench.store.fleet import Account

METER_SECONDS = 5.0


class Ledger:
    """The store's nodes and purchases of one cluster, and the same in memory.

    A node's money follows from its prices over time and is worked out anew each time; once it is
    gone its account is closed. So nothing is counted twice, however often it is looked at.

    Args:
        extra: $/h of what is billed beside each node: its disk.
    """

    def __init__(self, cluster: str, store: Store, extra: float = 0.0) -> None:
        self._cluster = cluster
        self._store = store
        self._extra = extra
        self._revision: int | None = None
        self._metered = 0.0
        self.account = Account(0.0, 0.0, 0.0)
        self.offers: tuple[Offer, ...] = ()
        self.nodes: dict[str, Node] = {}
        self.orders: dict[str, Order] = {}
        self._prices: dict[str, Prices] = {}

    def __repr__(self) -> str:
        return f"<Ledger of {self._cluster}: {len(self.nodes)} nodes, {len(self.orders)} orders>"

    def open(self, revision: int, now: float) -> None:
        """Read what is written, and note that a new wish stands if it does."""
        if self._revision is None:
            self.nodes = {n.id: n for n in self._store.nodes(self._cluster, gone=True)}
            self.orders = {o.purchase.token: o for o in self._store.orders(self._cluster)}
            self._prices = self._store.prices(self._cluster)
        if self._revision != revision:
            self.account = self._store.account(self._cluster, revision, now)
            self._revision = revision

    def node(self, id_: str) -> Node | None:
        """Return a node as it is written; None where it is not."""
        return self.nodes.get(id_)

    def put_order(
        self, order: Order, user_data: str = "", tags: Sequence[tuple[str, str]] = ()
    ) -> None:
        """Write an order down."""
        self._store.put_order(order, user_data, tags)
        self.orders[order.purchase.token] = order

    def sent(self, token: str) -> tuple[str, tuple[tuple[str, str], ...]] | None:
        """Return what a purchase that was written before sends; None for a new one."""
        return self._store.sent(self._cluster, token) if token in self.orders else None

    def put(self, node: Node, machine: Machine | None, now: float) -> None:
        """Write a node down, with what it has cost by now.

        Args:
            machine: As the place has it; None where it is not listed.
        """
        before = self.nodes.get(node.id)
        if before is not None and _apart_from_money(node, before) == before:
            return  # that is for ``meter``
        if before is not None and before.state is node.state is NodeState.GONE:
            node = replace(node, spent=before.spent, price=0.0)
        else:
            self._reprice(node, machine, now)
            node = self._counted(node, machine, now)
        self._store.put_node(self._cluster, node)
        self.nodes[node.id] = node

    def meter(self, machines: Mapping[str, Machine], now: float) -> None:
        """Work out what all nodes have cost by now; once in a while is enough."""
        if now - self._metered < METER_SECONDS:
            return
        self._metered = now
        news = []
        for node in self.nodes.values():
            if self._is_open(node):
                machine = machines.get(node.id)
                self._reprice(node, machine, now)
                counted = self._counted(node, machine, now)
                if counted != node:
                    news.append(counted)
        if news:
            self._store.put_nodes(self._cluster, news)
            self.nodes |= {node.id: node for node in news}

    def settle(self) -> None:
        """Close the account: nothing is left of the cluster."""
        self._store.settle(self._cluster)
        self._revision = None

    # -- inside

    def _reprice(self, node: Node, machine: Machine | None, now: float) -> None:
        before = self._prices.get(node.id, ())
        price = machine.price if machine and not machine.ended else 0.0
        if not price and not before:
            price = node.price or self._offered(node)
        if not price or not node.launched:
            return
        prices = repriced(before, price, now if before else node.launched)
        if prices != before:
            self._store.put_prices(self._cluster, [(node.id, *prices[-1])])
            self._prices[node.id] = prices

    def _offered(self, node: Node) -> float:
        """Return $/h of a node that ended before its own price was seen."""
        found = [o.price for o in self.offers if (o.type, o.zone) == (node.type, node.zone)]
        return found[0] if found else 0.0

    def _is_open(self, node: Node) -> bool:
        """Whether what it cost is not settled yet."""
        return bool(node.launched) and (
            node.state is not NodeState.GONE or node.id not in self._prices
        )

    def _counted(self, node: Node, machine: Machine | None, now: float) -> Node:
        prices = self._prices.get(node.id, ())
        ended = machine.ended if machine else 0.0
        until = min(now, ended) if ended else now
        taken = machine is not None and machine.interrupted
        return metered(node, prices, until, interrupted=taken, extra=self._extra)


def _apart_from_money(node: Node, before: Node) -> Node:
    return replace(node, price=before.price, spent=before.spent)
