"""The head has the lowest numeric address; order of deletion, and desired number of nodes."""

from __future__ import annotations

import ipaddress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from workbench.core.fleet.membership import (
    IDLE_SECONDS,
    by_worth,
    elect_head,
    members,
    wished_nodes,
)
from workbench.core.fleet.model import Node, NodeState

PROFILE = settings(derandomize=True, deadline=None, max_examples=200)
READY, JOINED = NodeState.READY, NodeState.JOINED


def node(address: str, state=READY, **changes) -> Node:
    return Node(address, state, address, **changes)


@pytest.mark.parametrize(
    ("addresses", "head"),
    [
        (["10.0.0.10", "10.0.0.4"], "10.0.0.4"),
        (["10.0.10.1", "10.0.9.200"], "10.0.9.200"),
        (["fd00::2", "10.0.0.9"], "10.0.0.9"),
        (["node-1", "10.0.0.9"], "10.0.0.9"),
        (["node-2", "node-1"], "node-1"),
    ],
)
def test_the_lowest_address_is_lowest_as_a_number(addresses, head) -> None:
    assert elect_head([node(address) for address in addresses]).address == head


@PROFILE
@given(st.sets(st.ip_addresses(v=4), min_size=1).map(list), st.randoms(use_true_random=False))
def test_the_head_does_not_depend_on_the_order(addresses, random) -> None:
    random.shuffle(addresses)

    head = elect_head([node(str(address)) for address in addresses])

    assert ipaddress.ip_address(head.address) == min(addresses)


def test_a_world_is_on_ready_nodes_with_a_session_the_head_first() -> None:
    nodes = [
        node("10.0.0.10"),
        node("10.0.0.11", JOINED, head=True),
        node("10.0.0.9", JOINED),
        node("10.0.0.1", NodeState.VERIFIED),
        node("10.0.0.2", NodeState.LEAVING),
        node("10.0.0.3", failed=True),
        node("10.0.0.4"),
    ]

    found = members(nodes, {n.id for n in nodes} - {"10.0.0.4"}, 3)

    assert [n.address for n in found] == ["10.0.0.11", "10.0.0.9", "10.0.0.10"]


def test_the_last_to_go_is_the_head_and_the_first_what_failed() -> None:
    kept = [
        node("head", JOINED, head=True, price=9.0),
        node("in a world", JOINED),
        node("cheap", price=0.1),
        node("old", price=0.2, launched=1.0),
        node("young", price=0.2, launched=2.0),
        node("booting", NodeState.BOOTING),
        node("failed", JOINED, failed=True),
    ]

    assert by_worth(reversed(kept), {"head", "in a world", "failed"}) == kept


@pytest.mark.parametrize(
    ("wish", "there", "waiting", "idle", "wished"),
    [
        ((3, 1, 0), 5, 4, 0.0, 3),
        ((0, 1, 6), 5, 4, 0.0, 0),
        ((2, 1, 6), 0, 0, 0.0, 2),
        ((2, 1, 6), 2, 1, 0.0, 3),
        ((2, 1, 6), 2, 9, 0.0, 6),
        ((2, 1, 6), 5, 1, 0.0, 5),
        ((2, 1, 6), 5, 0, 0.0, 5),
        ((2, 1, 6), 5, 0, IDLE_SECONDS, 1),
        ((2, 0, 6), 5, 0, IDLE_SECONDS, 0),
        ((2, 1, 6), 1, 1, 0.0, 3),
    ],
)
def test_a_fleet_grows_by_what_waits_and_shrinks_when_idle(
    wish, there, waiting, idle, wished
) -> None:
    assert wished_nodes(*wish, there=there, waiting=waiting, idle=idle) == wished


@PROFILE
@given(
    st.integers(1, 9),
    st.integers(0, 9),
    st.integers(1, 9),
    st.integers(0, 20),
    st.integers(0, 20),
    st.floats(0, 2 * IDLE_SECONDS),
)
def test_it_stays_between_least_and_most_and_settles(
    nodes, least, most, there, waiting, idle
) -> None:
    first = wished_nodes(nodes, least, most, there=there, waiting=waiting, idle=idle)
    second = wished_nodes(nodes, least, most, there=first, waiting=waiting, idle=idle)

    assert min(least, most) <= first <= most
    assert first == second
