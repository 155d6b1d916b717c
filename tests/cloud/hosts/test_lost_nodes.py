"""A node that alone is silent is lost soon; silence of all is this computer's own."""

from __future__ import annotations

import math
import random
from collections.abc import Callable

from workbench.cloud.hosts.silence import (
    BEYOND_SECONDS,
    IN_VAIN_SECONDS,
    MEANWHILE_SECONDS,
    PROBE_SECONDS,
    SilenceSigns,
    lost_nodes,
    update_signs,
)

STEP_SECONDS = 0.2
MOST_SECONDS = 3.0
KEEP_ALIVE_SECONDS = 9.0


class Sky:
    """Nodes whose kernels answer probes, and a watch that looks at them.

    Args:
        cut: Returns whether a node's answers are cut off at a moment.
        busy: Whether a node that trains answers all the time, and not only once a second.
    """

    def __init__(
        self,
        chance: random.Random,
        nodes: int,
        cut: Callable[[int, float], bool],
        *,
        busy: bool = False,
        ask_fails: float = 0.0,
    ) -> None:
        self.chance, self.cut, self.ask_fails = chance, cut, ask_fails
        self.every = 0.3 if busy else PROBE_SECONDS
        self.due = {n: chance.random() * self.every for n in range(nodes)}
        self.heard = dict.fromkeys(range(nodes), 0.0)
        self.signs: dict[int, SilenceSigns] = {}
        self.lost: dict[int, float] = {}
        self.asked = 0

    def live(self, until: float) -> None:
        now, look = 0.0, 0.0
        while now < until:
            now += 0.05
            for node, due in self.due.items():
                if now >= due:
                    self.due[node] = due + self.every
                    self.hear(node, now)
            if now < look:
                continue
            silences = {node: now - heard for node, heard in self.heard.items()}
            self.signs = update_signs(self.signs, silences, now)
            for node in lost_nodes(self.signs, now):
                self.lost.setdefault(node, now)
            silent = [node for node, signs in self.signs.items() if signs.is_silent(now)]
            for node in silent:
                self.asked += 1
                if self.chance.random() >= self.ask_fails:
                    self.hear(node, now)
            look = now + (STEP_SECONDS / 2 if silent else STEP_SECONDS)

    def hear(self, node: int, now: float) -> None:
        if not self.cut(node, now):
            self.heard[node] = now


def away(begin: float, end: float = math.inf, only: int | None = None) -> Callable[..., bool]:
    """Return what cuts off all nodes, or only one, from one moment to another."""
    return lambda node, now: begin <= now < end and only in (None, node)


def test_nodes_that_answer_are_neither_asked_nor_lost() -> None:
    for busy in (True, False):
        sky = Sky(random.Random(0), 5, lambda node, now: False, busy=busy)
        sky.live(30)

        assert not sky.lost
        assert not sky.asked


def test_one_that_is_silent_while_another_answers_is_asked_and_then_lost() -> None:
    signs = update_signs({}, {"a": 0.1, "b": PROBE_SECONDS + BEYOND_SECONDS + 0.01}, 10.0)
    late = 10.01 + IN_VAIN_SECONDS

    def lost(silence: float, other: float, now: float) -> frozenset[str]:
        return lost_nodes(update_signs(signs, {"a": other, "b": silence + now - 10.0}, now), now)

    assert signs["b"].asked == 10.0
    assert signs["a"].asked == float("inf")
    assert lost(1.2, 0.0, late - 0.1) == set()
    assert lost(1.2, IN_VAIN_SECONDS - MEANWHILE_SECONDS + 0.1, late) == set()
    assert lost(1.2, 0.1, late) == {"b"}
    assert lost(0.0, 0.1, late) == set()


def test_a_node_that_is_heard_all_the_time_is_asked_sooner() -> None:
    signs = update_signs({}, {"a": 0.0, "b": 0.0}, 10.0)
    for step in range(1, 40):
        signs = update_signs(signs, {"a": 0.0, "b": 0.0}, 10.0 + 0.2 * step)

    assert signs["b"].is_silent(18.6)
    assert not signs["b"].is_silent(18.4)
    signs = update_signs(signs, {"a": 0.0, "b": 0.0}, 18.8)
    assert not signs["b"].is_silent(19.7)


def test_without_another_node_to_compare_with_the_keep_alive_decides() -> None:
    signs = update_signs({}, {"a": 60.0}, 60.0)

    assert signs["a"].is_silent(60.0)
    assert not lost_nodes(update_signs(signs, {"a": 90.0}, 90.0), 90.0)
    assert not lost_nodes({}, 60.0)


def test_a_broken_connection_of_this_computer_loses_no_node_also_when_it_is_back() -> None:
    chance = random.Random(1)
    for _ in range(300):
        begin = 5 + chance.random()
        end = begin + chance.random() * KEEP_ALIVE_SECONDS
        sky = Sky(
            chance,
            chance.randint(2, 12),
            away(begin, end),
            busy=chance.random() < 0.5,
            ask_fails=0.3,
        )
        sky.live(end + 5)

        assert not sky.lost


def test_a_node_that_is_cut_off_for_a_second_is_not_lost() -> None:
    chance = random.Random(2)
    for _ in range(300):
        begin = 5 + chance.random()
        sky = Sky(
            chance,
            chance.randint(2, 6),
            away(begin, begin + 1, only=0),
            busy=chance.random() < 0.5,
        )
        sky.live(10)

        assert not sky.lost


def test_a_node_that_vanishes_is_lost_within_three_seconds_and_sooner_while_it_trains() -> None:
    chance = random.Random(3)
    for busy, most in ((True, 2.0), (False, MOST_SECONDS)):
        for _ in range(200):
            begin = 5 + chance.random()
            sky = Sky(
                chance,
                chance.randint(2, 8),
                away(begin, only=0),
                busy=busy,
            )
            sky.live(begin + MOST_SECONDS)

            assert sky.lost.keys() == {0}
            assert sky.lost[0] - begin <= most
