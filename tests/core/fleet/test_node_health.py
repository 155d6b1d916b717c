"""Whatever notices come, ranks leave a node late, in time, and with few moves."""

from __future__ import annotations

import math
import random
from dataclasses import dataclass, field, replace

import pytest

from workbench.core.cluster.target_world import waits_for_more
from workbench.core.fleet.membership import members
from workbench.core.fleet.model import Node, NodeState
from workbench.core.fleet.node_health import (
    MOVE_SECONDS,
    apply_notice,
    leave_in_time,
    leave_noticed,
    withdraw_notice,
)
from workbench.core.recovery.departure import SAFETY, UNMEASURED_SECONDS, notice_lead

LEAD, TURN, NODES = 20.0, 0.5, 4


@dataclass
class Cluster:
    """A cluster of four nodes on which a run trains, with the functions that decide for real ones.

    Args:
        boots: Seconds that each replacement takes; infinite for one that never comes.
    """

    boots: list[float]
    now: float = 1_000.0
    nodes: dict[str, Node] = field(default_factory=dict)
    ready_at: dict[str, float] = field(default_factory=dict)
    world: frozenset[str] = frozenset()
    moves: list[float] = field(default_factory=list)
    lost: list[float] = field(default_factory=list)

    def __post_init__(self) -> None:
        for number in range(NODES):
            self.nodes[f"i-{number}"] = Node(f"i-{number}", NodeState.JOINED, f"a-{number}", 1)
        self.world = frozenset(node.address for node in self.nodes.values())

    def notice(self, id_: str, end: float) -> None:
        self.nodes[id_] = apply_notice(self.nodes[id_], end, self.now)

    def turn(self) -> None:
        """Let time pass, as a supervisor and a provider do."""
        self.now += TURN
        for id_, node in [*self.nodes.items()]:
            if node.reclaimed and node.reclaimed <= self.now:
                del self.nodes[id_]
                if node.address in self.world:
                    self.lost.append(self.now)
            elif node.state is NodeState.BOOTING and self.ready_at[id_] <= self.now:
                self._put(node, NodeState.READY)
        staying = [node for node in self.nodes.values() if node.state is not NodeState.LEAVING]
        used = {node.id for node in self.nodes.values() if node.address in self.world}
        for node in leave_in_time([n for n in staying if n.reclaimed], used, LEAD, self.now):
            self.nodes[node.id] = leave_noticed(node, self.now)
        for _ in range(NODES - sum(not node.is_going for node in self.nodes.values())):
            id_ = f"new-{len(self.ready_at)}"
            self.ready_at[id_] = self.now + (self.boots.pop() if self.boots else math.inf)
            self.nodes[id_] = Node(id_, NodeState.BOOTING, id_, 1, since=self.now)
        self._move()

    def _move(self) -> None:
        able = {node.address for node in members(self.nodes.values(), self.nodes, NODES)}
        waits = waits_for_more(
            [*self.nodes.values()], able, self.world,
            starts_early=True, has_begun=True, has_work=True, now=self.now,
        )  # fmt: skip
        if not waits and able != self.world:
            self.world = frozenset(able)
            self.moves.append(self.now)
            for node in [*self.nodes.values()]:
                is_in = node.address in able
                if node.state in (NodeState.READY, NodeState.JOINED):
                    self._put(node, NodeState.JOINED if is_in else NodeState.READY)

    def _put(self, node: Node, state: NodeState) -> None:
        if node.state is not state:
            self.nodes[node.id] = replace(node, state=state, since=self.now)

    def live(self, seconds: float) -> Cluster:
        end = self.now + seconds
        while self.now < end:
            self.turn()
        return self


def test_a_replacement_that_is_ready_in_time_costs_one_move() -> None:
    cluster = Cluster([60.0])
    cluster.notice("i-1", cluster.now + 120)

    cluster.live(200)

    assert len(cluster.moves) == 1
    assert len(cluster.world) == NODES
    assert cluster.moves[0] == pytest.approx(1_060.0, abs=2 * TURN)


def test_without_a_replacement_ranks_leave_at_the_last_safe_moment() -> None:
    cluster = Cluster([])
    cluster.notice("i-1", cluster.now + 120)

    cluster.live(200)

    assert cluster.moves == [pytest.approx(1_120.0 - LEAD, abs=2 * TURN)]
    assert (len(cluster.world), cluster.lost) == (NODES - 1, [])


def test_several_nodes_are_exchanged_together_once_all_replacements_are_ready() -> None:
    cluster = Cluster([70.0, 50.0, 30.0])
    for number in range(3):
        cluster.notice(f"i-{number}", cluster.now + 120)

    cluster.live(200)

    assert cluster.moves == [pytest.approx(1_070.0, abs=2 * TURN)]
    assert len(cluster.world) == NODES


def test_a_whole_cluster_with_notices_moves_once() -> None:
    cluster = Cluster([70.0, 60.0, 50.0, 40.0])
    for number in range(NODES):
        cluster.notice(f"i-{number}", cluster.now + 120)

    cluster.live(200)

    assert cluster.moves == [pytest.approx(1_070.0, abs=2 * TURN)]
    assert len(cluster.world) == NODES


def test_a_node_leaves_with_another_if_its_own_move_would_cost_more_than_it_still_trains() -> None:
    spare = MOVE_SECONDS * NODES
    near, far = Cluster([]), Cluster([])
    for cluster, gap in ((near, spare - 1), (far, spare + 1)):
        cluster.notice("i-1", cluster.now + 120)
        cluster.notice("i-2", cluster.now + 120 + gap)
        cluster.live(200)

    assert len(near.moves) == 1
    assert len(far.moves) == 2


def test_a_notice_that_is_taken_back_changes_nothing() -> None:
    cluster = Cluster([math.inf])
    cluster.notice("i-1", cluster.now + 120)
    cluster.live(50)

    cluster.nodes["i-1"] = withdraw_notice(cluster.nodes["i-1"])
    cluster.live(200)

    assert (cluster.moves, cluster.lost) == ([], [])


@pytest.mark.parametrize("end", [0.0, 990.0])
def test_a_node_whose_end_is_unknown_or_past_is_left_at_once(end) -> None:
    cluster = Cluster([])
    cluster.notice("i-1", end)

    if end:
        [left] = leave_in_time([cluster.nodes["i-1"]], {*cluster.nodes}, LEAD, cluster.now)
        assert left.id == "i-1"
    else:
        assert cluster.nodes["i-1"].state is NodeState.LEAVING


def test_a_move_is_begun_earlier_the_longer_it_takes() -> None:
    assert notice_lead(1.0, 1.0, 1.0) == 15
    assert notice_lead(5.0, 20.0, 6.0) == SAFETY * 31
    assert notice_lead(5.0, math.inf, 6.0) == SAFETY * (11 + UNMEASURED_SECONDS)


@pytest.mark.parametrize("first", range(0, 400, 100))
def test_in_each_history_ranks_leave_in_time_and_not_early(first) -> None:
    for seed in range(first, first + 100):
        chance = random.Random(seed)
        cluster = Cluster([chance.choice([5.0, 40.0, 90.0, 110.0, math.inf]) for _ in range(9)])
        notices = 0
        for _ in range(chance.randint(1, 5)):
            staying = [node.id for node in cluster.nodes.values() if not node.is_going]
            for id_ in chance.sample(staying, min(len(staying), chance.choice([1, 1, 2, NODES]))):
                if cluster.nodes[id_].state is not NodeState.JOINED:
                    continue
                cluster.notice(id_, cluster.now + chance.choice([30.0, 119.0, 120.0, 135.0]))
                notices += 1
            for _ in range(chance.choice([1, 20, 100, 400])):
                before, joined = len(cluster.world), {*cluster.world}
                cluster.turn()
                if len(cluster.world) < before:
                    ends = [n.reclaimed for n in cluster.nodes.values() if n.address in joined]
                    soonest = min(end for end in ends if end)
                    assert soonest - LEAD <= cluster.now + TURN, f"seed {seed}: left early"
        cluster.live(600)
        assert not cluster.lost, f"seed {seed}: ranks were on a node until its end"
        # One move away from each node, and one for each replacement, at most.
        assert len(cluster.moves) <= 2 * notices, f"seed {seed}"
        assert len(cluster.world) == sum(
            node.state is NodeState.JOINED for node in cluster.nodes.values()
        )
