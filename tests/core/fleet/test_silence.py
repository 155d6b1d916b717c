"""A node that alone is silent is lost soon; silence of all is this computer's own."""

from __future__ import annotations

import random

from workbench.core.fleet.silence import PROBE_SECONDS, SILENCE_SECONDS, lost_nodes

STEP = 0.2
MOST_SECONDS = 3.0


def silences(heard: dict[str, float], now: float) -> dict[str, float]:
    return {node: now - moment for node, moment in heard.items()}


def test_nodes_that_answer_are_not_lost() -> None:
    assert lost_nodes({}) == frozenset()
    assert lost_nodes({"a": 0.0, "b": 1.1}) == frozenset()


def test_one_that_is_silent_while_another_answers_is_lost() -> None:
    assert lost_nodes({"a": 0.3, "b": SILENCE_SECONDS}) == {"b"}
    assert lost_nodes({"a": 0.3, "b": 2.5, "c": 2.9}) == {"b", "c"}


def test_without_another_node_to_compare_with_the_keep_alive_decides() -> None:
    assert lost_nodes({"a": 60.0}) == frozenset()


def test_silence_of_all_at_about_the_same_time_loses_no_node() -> None:
    chance = random.Random(1)
    for _ in range(200):
        # Each had its last answer within one probe of the moment at which the connection broke.
        heard = {f"{n}": -chance.random() * PROBE_SECONDS for n in range(chance.randint(2, 100))}
        for step in range(100):
            assert lost_nodes(silences(heard, step * STEP)) == frozenset()


def test_a_node_that_vanishes_is_lost_within_three_seconds() -> None:
    chance = random.Random(2)
    for _ in range(200):
        phase = {f"{n}": chance.random() * PROBE_SECONDS for n in range(2, 9)}
        found = None
        for step in range(1, 40):
            now = step * STEP
            alive = {n: (now - p) % PROBE_SECONDS for n, p in phase.items()}
            lost = lost_nodes({**alive, "gone": now})
            if lost and found is None:
                found = now
            assert lost <= {"gone"}
        assert found is not None
        assert found <= MOST_SECONDS
