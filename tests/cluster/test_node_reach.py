"""Nodes that do not answer are looked for by those that do."""

from __future__ import annotations

import pytest

from tests.supervisor.agents import Over, Talker
from workbench.cluster.remote_hosts import AGAIN_SECONDS, NodeReach
from workbench.core.node.agent_protocol import NodeTried, TryNode


class Near(Talker):
    """A node that answers, and says whether it reaches others."""

    def say(self, answers: bool) -> None:
        self.started[-1].say_to(TryNode, Over(NodeTried(answers)))
        self.started[-1].calls.clear()


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


def asked(node: Near) -> int:
    return sum(isinstance(one, TryNode) for one in node.heard)


def test_a_node_is_lost_once_another_one_says_so() -> None:
    clock, near, far = Clock(), Near("near"), Talker("far")
    reach = NodeReach(lambda: 600.0, clock)
    sessions = {"near": near, "far": far}
    assert reach.look(sessions) == {}
    assert asked(near) == 0

    far.is_silent = True
    assert reach.look(sessions) == {}
    assert asked(near) == 1
    near.say(answers=False)
    assert reach.look(sessions) == {}  # its session is still open

    far.is_open = False
    assert [*reach.look(sessions)] == ["far"]


def test_a_node_that_another_one_reaches_is_asked_for_again_and_again() -> None:
    clock, near, far = Clock(), Near("near"), Talker("far")
    far.is_open, far.is_silent = False, True
    reach = NodeReach(lambda: 600.0, clock)
    for number in range(1, 5):
        assert reach.look({"near": near, "far": far}) == {}
        assert asked(near) == number
        near.say(answers=number < 4)
        clock.now += AGAIN_SECONDS

    assert [*reach.look({"near": near, "far": far})] == ["far"]


def test_a_node_that_cannot_say_it_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    clock, near, far = Clock(), Near("near"), Talker("far")
    far.is_open, far.is_silent = False, True
    reach = NodeReach(lambda: 600.0, clock)
    for _ in range(3):
        assert reach.look({"near": near, "far": far}) == {}
        near.started[-1].say_to(TryNode, Over(why="KeyError('TryNode')"))
        near.started[-1].calls.clear()
        clock.now += AGAIN_SECONDS

    said = "near: KeyError('TryNode'); it cannot say which other nodes answer."
    assert [one.message for one in caplog.records] == [said]


def test_nodes_that_all_are_silent_are_lost_when_their_ranks_no_longer_wait() -> None:
    clock = Clock()
    sessions = {"one": Talker("one"), "two": Talker("two")}
    for session in sessions.values():
        session.is_open, session.is_silent = False, True
    reach = NodeReach(lambda: 600.0, clock)

    assert reach.look(sessions) == {}
    clock.now += 599.0
    assert reach.look(sessions) == {}
    clock.now += 2.0
    assert sorted(reach.look(sessions)) == ["one", "two"]
