"""Nodes wait for others as long as a move costs, and below the minimum a run says why it waits."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from workbench.core.cluster.target_world import out_of_reach, shortage, waits_for_more
from workbench.core.fleet.model import FleetWish, Node, NodeState
from workbench.core.fleet.node_health import MOVE_SECONDS

NOW = 1_000.0
HERE = [Node(f"i-{n}", NodeState.READY, f"10.0.0.{n}", 1, since=NOW) for n in range(9)]
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
    assert not waits(HERE[:2], coming=0, early=False)
    assert not waits(HERE[:3], coming=0, standing=HERE[:2])


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
    assert waits(HERE[:3], early=early, begun=begun, after=after) is expected


def test_a_world_grows_once_waiting_has_cost_as_much_as_the_move() -> None:
    # Three nodes train and would pause; one is ready.
    assert waits(HERE[:4], standing=HERE[:3], after=3 * MOVE_SECONDS - 0.1)
    assert not waits(HERE[:4], standing=HERE[:3], after=3 * MOVE_SECONDS)
    # Three are ready: their time is worth as much after a third of it.
    assert not waits(HERE[:6], standing=HERE[:3], after=MOVE_SECONDS)
    assert waits(HERE[:3], standing=HERE[:3], after=1e6)


def test_an_idle_world_is_replaced_once_when_all_are_there() -> None:
    assert waits(HERE[:4], standing=HERE[:3], after=1e6, work=False)


def test_a_world_that_lost_a_node_is_replaced_at_once() -> None:
    assert not waits(HERE[1:3], standing=HERE[:3], begun=True)


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
    return waits(HERE[: train + 1], standing=HERE[:train], after=after)


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
