"""The ledger includes charges beside a machine, also after the machine has ended."""

from __future__ import annotations

from dataclasses import replace

import pytest

from workbench.core.fleet.model import Machine, MachineState, Node, NodeState, Offer
from workbench.supervisor.fleet.ledger import Ledger

START, HOUR = 1_700_000_000.0, 3600.0
MACHINE = Machine(
    "i-1", MachineState.RUNNING, "10.0.0.1", type="c5.large", zone="a", price=0.1,
    launched=START, extra_price=0.02,
)  # fmt: skip
NODE = Node("i-1", NodeState.BOOTING, type="c5.large", zone="a", launched=START, extra_price=0.02)


def ledger(store, received=dict) -> Ledger:
    found = Ledger("lab", store, received)
    found.open(1, START)
    return found


def test_disk_and_address_are_metered_until_the_machine_is_gone(store) -> None:
    first = ledger(store)
    first.put(NODE, MACHINE, START)
    first.meter({"i-1": MACHINE}, START + HOUR)

    again = ledger(store)
    before = again.nodes["i-1"]
    gone = replace(
        MACHINE, state=MachineState.GONE, price=0.0, extra_price=0.0, ended=START + 2 * HOUR
    )
    ended = replace(before, state=NodeState.GONE, ended=gone.ended)
    again.put(ended, gone, START + 3 * HOUR)

    assert (before.spent, before.price) == (pytest.approx(0.12), pytest.approx(0.12))
    assert again.nodes["i-1"].spent == pytest.approx(0.24)
    assert store.fleets.spent("lab") == pytest.approx(0.24)


def test_a_node_that_ended_unseen_is_metered_as_it_was_offered(store) -> None:
    books = ledger(store)
    books.offers = (Offer("c5.large", "a", 0.1, 2, 4.0, extra_price=0.02),)
    gone = replace(MACHINE, state=MachineState.GONE, price=0.0, extra_price=0.0, ended=START + HOUR)

    books.put(
        replace(NODE, state=NodeState.GONE, ended=gone.ended, extra_price=0.0), gone, START + HOUR
    )

    assert books.nodes["i-1"].spent == pytest.approx(0.12)


def test_what_nodes_send_here_is_counted_once_and_a_successor_continues(store) -> None:
    come = {"10.0.0.1": 2_000_000_000, "10.0.0.9": 5}
    first = ledger(store, lambda: come)
    first.put(replace(NODE, address="10.0.0.1"), MACHINE, START)
    first.meter({"i-1": MACHINE}, START + HOUR, 0.09)
    come = {}
    first.meter({"i-1": MACHINE}, START + HOUR + 10.0, 0.09)
    first.put(replace(NODE, address="10.0.0.1", state=NodeState.READY), MACHINE, START + HOUR)

    come = {"10.0.0.1": 1_000_000_000}
    again = ledger(store, lambda: come)
    again.meter({"i-1": MACHINE}, START + HOUR, 0.09)

    assert again.nodes["i-1"].traffic == pytest.approx(3 * 0.09)
    assert again.nodes["i-1"].spent == pytest.approx(0.12 + 3 * 0.09)
    assert store.fleets.spent("lab") == pytest.approx(0.12 + 3 * 0.09)


def test_what_a_node_sent_last_is_counted_of_it_and_not_of_an_older_one(store) -> None:
    gone = replace(NODE, address="10.0.0.1", state=NodeState.GONE, spent=1.0, since=START)
    store.fleets.put_nodes("lab", [replace(gone, id="i-9"), replace(gone, since=START + 1.0)])
    books = ledger(store, lambda: {"10.0.0.1": 1_000_000_000})

    books.count_traffic(0.09)

    assert (books.nodes["i-9"].spent, books.nodes["i-1"].spent) == (1.0, pytest.approx(1.09))
