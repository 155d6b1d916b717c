"""A node that does not answer is lost where others answer and do not reach it, and never else."""

from __future__ import annotations

import pytest

from workbench.core.world.remote import Absence, why_lost

PATIENCE = 600.0
Answers = dict[str, bool | None]


def lost_at(history: list[tuple[float, Answers]], closed: float = 2.0) -> float | None:
    """Return when a node is lost whose session was closed at a moment.

    Args:
        history: From which second on the others say what.
    """
    for tenth in range(12_000):
        now = tenth / 10
        answers = next(said for since, said in reversed(history) if since <= now)
        if why_lost(Absence(0.0, closed, answers), PATIENCE, now):
            return now
    return None


@pytest.mark.parametrize(
    ("history", "when"),
    [
        # It vanishes: another node tells before its session is given up.
        ([(0.0, {"b": None}), (1.9, {"b": False})], 2.0),
        ([(0.0, {"b": None}), (2.4, {"b": False})], 2.4),
        # No node answers: the link is broken, and the ranks wait.
        ([(0.0, {})], 602.1),
        # One comes back first, and reaches it.
        ([(0.0, {}), (20.0, {"b": None}), (20.1, {"b": True})], 602.1),
        # One comes back first, and does not reach it.
        ([(0.0, {}), (20.0, {"b": None}), (20.9, {"b": False})], 20.9),
        # Of two neighbours one reaches it; later neither does.
        ([(0.0, {"b": False, "c": None}), (2.5, {"b": False, "c": True})], 602.1),
        ([(0.0, {"b": False, "c": True}), (30.0, {"b": False, "c": False})], 30.0),
        # The neighbour that reached it no longer answers either.
        ([(0.0, {"b": True}), (9.0, {})], 602.1),
    ],
)  # fmt: skip
def test_a_node_is_lost_when_no_other_reaches_it_or_its_ranks_no_longer_wait(
    history: list[tuple[float, Answers]], when: float
) -> None:
    assert lost_at(history) == when


def test_a_node_is_not_lost_while_its_session_is_open() -> None:
    assert not why_lost(Absence(0.0, answers={"b": False}), PATIENCE, 1e6)
