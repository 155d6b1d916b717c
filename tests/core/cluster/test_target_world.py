"""A world runs on the ready nodes, and never on fewer than the minimum."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from workbench.core.cluster.model import ClusterWish
from workbench.core.cluster.target_world import (
    out_of_reach,
    shortage,
    target_world,
    waits_for_more,
    wished_world,
)
from workbench.core.fleet.model import FleetWish, Node, NodeState
from workbench.core.fleet.node_health import MOVE_SECONDS
from workbench.core.fleet.request import check_fleet
from workbench.core.world.world import Host, World
from workbench.errors import InputError

HERE = (Host("localhost", 2),)
NODES = tuple(Host(f"10.0.0.{n}", 2) for n in (4, 10, 11))
HOSTS = FleetWish("hosts", nodes=3, hosts=NODES)
BOUGHT = FleetWish("ec2", nodes=3, min_nodes=2)


@pytest.mark.parametrize(
    ("fleet", "sentence"),
    [
        (replace(HOSTS, hosts=()), "write one on each line, as in 172.31.41.13 slots=1."),
        (replace(HOSTS, nodes=4), "nodes must be from 0 to 3, not 4."),
        (replace(BOUGHT, nodes=-1), "nodes must be from 0 to 512, not -1."),
        (replace(BOUGHT, min_nodes=4), "minimum must be from 1 to 3 nodes, not 4."),
        (replace(BOUGHT, max_nodes=2), "maximum must be from 3 to 512 nodes, not 2."),
        (replace(BOUGHT, budget=-1.0), "The budget must be at least 0, not -1."),
    ],
)
def test_a_fleet_that_is_not_valid_is_refused(fleet, sentence) -> None:
    with pytest.raises(InputError) as refusal:
        check_fleet(fleet)

    assert str(refusal.value).endswith(sentence)


def test_what_hosts_carry_is_known_before_they_start() -> None:
    assert wished_world(HOSTS, HERE, 0, False).size == 6
    assert wished_world(replace(HOSTS, nodes=2), HERE, 0, False).hosts == NODES[:2]
    assert wished_world(replace(HOSTS, slots=1), HERE, 0, False).size == 3
    with pytest.raises(InputError, match="these 3 hosts have 6 slots"):
        wished_world(HOSTS, HERE, 7, False)


def test_what_bought_nodes_carry_is_not() -> None:
    assert wished_world(BOUGHT, HERE, 64, False) == World((), 64)


def test_a_world_takes_all_slots_of_the_nodes_that_are_ready() -> None:
    wish = ClusterWish("default", up=True, ranks=0, fleet=BOUGHT)

    assert target_world(wish, NODES) == World(NODES, 6)
    assert target_world(wish, NODES[:2]) == World(NODES[:2], 4)
    assert target_world(wish, NODES[:1]) is None


def test_ranks_that_were_asked_for_come_back_with_their_nodes() -> None:
    wish = ClusterWish("default", up=True, ranks=5, fleet=HOSTS)

    assert target_world(wish, NODES[:2]) == World(NODES[:2], 4)
    assert target_world(wish, NODES) == World(NODES, 5)


def test_a_node_without_ranks_is_no_part_of_the_world() -> None:
    wish = ClusterWish("default", up=True, ranks=3, fleet=HOSTS)

    assert target_world(wish, NODES) == World(NODES[:2], 3)
    assert target_world(replace(wish, ranks=7, oversubscribe=True), NODES) == World(NODES, 7, True)


def test_no_nodes_are_a_world_without_ranks() -> None:
    wish = ClusterWish("default", up=True, ranks=2, fleet=replace(BOUGHT, nodes=0))

    assert target_world(wish, ()) == World((), 0)


def test_a_world_that_waits_is_unknown() -> None:
    wish = ClusterWish("default", up=True, ranks=0, fleet=BOUGHT)

    assert target_world(wish, NODES[:2], waits=True) is None


NOW = 1_000.0
READY = [Node(f"i-{n}", NodeState.READY, f"10.0.0.{n}", 1, since=NOW) for n in range(9)]
BOOTING = Node("i-new", NodeState.BOOTING, "10.0.0.99", since=NOW)
WISH = FleetWish("ec2", nodes=4, min_nodes=3)


def waits(ready, *, coming=1, standing=(), after=0.0, early=True, begun=False, work=True) -> bool:
    nodes = [*ready, *(replace(BOOTING, id=f"i-new-{n}") for n in range(coming))]
    return waits_for_more(
        nodes,
        {node.address for node in ready},
        {node.address for node in standing},
        starts_early=early,
        has_begun=begun,
        has_work=work,
        now=NOW + after,
    )


def test_no_world_waits_when_nothing_comes() -> None:
    assert not waits(READY[:2], coming=0, early=False)
    assert not waits(READY[:3], coming=0, standing=READY[:2])


@pytest.mark.parametrize(
    ("early", "begun", "after", "expected"),
    [
        (False, False, 600.0, True),
        (True, False, 0.0, True),
        (True, False, MOVE_SECONDS, False),
        (False, True, 0.0, True),
        (False, True, MOVE_SECONDS, False),
    ],
)
def test_the_first_world_waits_for_all_unless_it_may_start_early(
    early, begun, after, expected
) -> None:
    assert waits(READY[:3], early=early, begun=begun, after=after) is expected


def test_a_world_grows_once_waiting_has_cost_as_much_as_the_move() -> None:
    # Three nodes train and would pause; one is ready.
    assert waits(READY[:4], standing=READY[:3], after=3 * MOVE_SECONDS - 0.1)
    assert not waits(READY[:4], standing=READY[:3], after=3 * MOVE_SECONDS)
    # Three are ready: their time is worth as much after a third of it.
    assert not waits(READY[:6], standing=READY[:3], after=MOVE_SECONDS)
    assert waits(READY[:3], standing=READY[:3], after=1e6)


def test_an_idle_world_is_replaced_once_when_all_are_there() -> None:
    assert waits(READY[:4], standing=READY[:3], after=1e6, work=False)


def test_a_world_that_lost_a_node_is_replaced_at_once() -> None:
    assert not waits(READY[1:3], standing=READY[:3], begun=True)


def test_the_rule_costs_at_most_about_twice_what_knowing_would() -> None:
    chance = random.Random(1)
    for _ in range(200):
        train, comes = chance.randint(1, 8), chance.uniform(0.0, 60.0)
        # One node is ready at 0, another comes at ``comes``; idle node-seconds and stand-still.
        now, wait = train * MOVE_SECONDS + (train + 1) * MOVE_SECONDS, comes + train * MOVE_SECONDS
        best = min(now, wait)
        moved = next((t / 10 for t in range(6_000) if not waits_at(train, t / 10)), float("inf"))
        ours = comes + train * MOVE_SECONDS if comes <= moved else moved + now

        assert ours <= 2 * best + 0.2


def waits_at(train: int, after: float) -> bool:
    return waits(READY[: train + 1], standing=READY[:train], after=after)


def test_below_the_minimum_the_message_says_for_what_and_at_what_price() -> None:
    assert shortage(WISH, 3, 1.0) == ""
    assert shortage(WISH, 1, 0.5) == (
        "1 of at least 3 nodes are ready; the run waits for 2 more, and then continues by itself. "
        "The nodes cost $0.50/h meanwhile."
    )
    assert "cost" not in shortage(WISH, 0, 0.0)


def test_it_is_said_which_nodes_do_not_answer_while_their_ranks_train() -> None:
    assert out_of_reach((), 2, 600.0) == ""
    assert out_of_reach(("a", "b"), 2, 600.0).startswith("No node answers. The ranks train on")
    assert "up to 10 min" in out_of_reach(("a", "b"), 2, 600.0)
    assert out_of_reach(("a",), 2, 600.0) == (
        "a does not answer this computer. The run continues there while other nodes reach it."
    )
