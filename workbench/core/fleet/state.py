"""The state of a fleet while its plan is made: nodes as observed, and as decided."""

from __future__ import annotations

from dataclasses import replace

from workbench.core.fleet.facts import FleetFact
from workbench.core.fleet.model import FleetWish, Machine, Node, NodeState
from workbench.core.fleet.node_health import (
    ALIVE,
    adopt_machine,
    apply_notice,
    is_silent,
    mark_unlisted,
    record_unseen_end,
    update_node,
    withdraw_notice,
)
from workbench.core.fleet.purchases import PurchaseRecord, settle_purchases


class FleetView:
    """One fleet at one moment.

    ``nodes`` starts as the recorded nodes, updated by what is observed, and changes with each
    decision; the arguments are not changed.
    """

    def __init__(self, wish: FleetWish, fact: FleetFact, now: float) -> None:
        self.wish = wish
        self.fact = fact
        self.now = now
        self.is_rented = not wish.place.lists_hosts
        self.machines = {machine.id: machine for machine in fact.machines}
        self.contacts = {contact.id: contact for contact in fact.contacts}
        self.news = settle_purchases(fact.purchases, fact.machines, fact.seen, fact.calling)
        newer = {record.purchase.token: record for record in self.news}
        self.purchases: list[PurchaseRecord] = [
            newer.get(o.purchase.token, o) for o in fact.purchases
        ]
        self._written = {node.id: node for node in fact.nodes}
        self.nodes = dict(self._written)
        self._look()

    def __repr__(self) -> str:
        nodes = f"{len(self.alive)} of {self.wish.nodes} nodes"
        return f"<FleetView {nodes}, {len(self.purchases)} purchases>"

    @property
    def changed(self) -> list[Node]:
        """The nodes that differ from their records."""
        return [node for node in self.nodes.values() if self._written.get(node.id) != node]

    @property
    def alive(self) -> list[Node]:
        """The nodes that are billed: neither gone nor requested."""
        return [
            node
            for node in self.nodes.values()
            if node.state is not NodeState.GONE and self._is_alive(node)
        ]

    @property
    def staying(self) -> list[Node]:
        """The nodes that do not leave now; those with a notice will."""
        return [node for node in self.alive if node.state is not NodeState.LEAVING]

    @property
    def kept(self) -> list[Node]:
        """The nodes that are not to end."""
        return [node for node in self.staying if not self.is_taken(node)]

    @property
    def spent(self) -> float:
        """$ for all nodes that ever were."""
        return sum(node.spent for node in self.nodes.values())

    @property
    def price(self) -> float:
        """$/h now."""
        return sum(node.price for node in self.alive)

    @property
    def silent(self) -> list[Node]:
        """The running nodes that do not answer, if none answers; empty if one does."""
        if not self.is_rented or any(contact.open for contact in self.contacts.values()):
            return []
        return [
            node
            for node in self.staying
            if (machine := self.machines.get(node.id))
            and (contact := self.contacts.get(node.id))
            and is_silent(node, machine, contact, self.now)
        ]

    def is_taken(self, node: Node) -> bool:
        """Return whether the provider takes the node back."""
        machine = self.machines.get(node.id)
        has_notice = node.id in self.fact.noticed or bool(node.reclaimed)
        return has_notice or bool(machine and machine.interrupted)

    def has_session(self, node: Node) -> bool:
        """Return whether a verified session with the node is open."""
        contact = self.contacts.get(node.id)
        return bool(contact and contact.open)

    def leave(self, node: Node, why: str, *, failed: bool = False) -> None:
        """Decide that a node is to end; a leaving one keeps its reason."""
        before = self._written.get(node.id)
        if before and before.state is NodeState.LEAVING:
            self.nodes[node.id] = before
            return
        self.nodes[node.id] = replace(
            node, state=NodeState.LEAVING, since=self.now, message=why, failed=failed or node.failed
        )

    def part(self, node: Node) -> None:
        """Decide that a node leaves the fleet, while its machine is kept."""
        self.nodes[node.id] = replace(
            node, state=NodeState.GONE, since=self.now, ended=self.now, price=0.0, head=False
        )

    def _is_alive(self, node: Node) -> bool:
        machine = self.machines.get(node.id)
        return machine is None or machine.state in ALIVE

    def _look(self) -> None:
        for node in self._written.values():
            if node.state is not NodeState.GONE and node.id not in self.machines:
                self.nodes[node.id] = mark_unlisted(node, self.fact.seen, self.now)
        tokens = {record.purchase.token for record in self.purchases}
        for machine in self.machines.values():
            found = self._node(machine, tokens)
            if found:
                self.nodes[machine.id] = found

    def _node(self, machine: Machine, tokens: set[str]) -> Node | None:
        known = self._written.get(machine.id)
        if known and known.state is not NodeState.GONE:
            node = update_node(known, machine, self.contacts.get(machine.id), self.now)
            if machine.id in self.fact.withdrawn:
                node = withdraw_notice(node)
            reclaimed = self.fact.noticed.get(machine.id)
            is_noticed = reclaimed is not None and machine.state in ALIVE
            return apply_notice(node, reclaimed or 0.0, self.now) if is_noticed else node
        if machine.state in ALIVE and self.is_rented:
            return adopt_machine(machine, known, self.now)
        if known is None and machine.token in tokens:
            return record_unseen_end(machine, self.now)
        return None
