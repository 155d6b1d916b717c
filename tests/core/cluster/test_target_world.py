"""A world runs on the ready nodes, and never on fewer than the minimum."""

from __future__ import annotations

from dataclasses import replace

import pytest

from workbench.core.cluster.model import ClusterWish
from workbench.core.cluster.target_world import target_world, wished_world
from workbench.core.fleet.model import FleetWish
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
