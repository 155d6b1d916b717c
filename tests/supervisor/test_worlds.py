"""Worlds are calm while none of them begins or ends."""

from __future__ import annotations

from workbench.core.cluster.generation import WorldFact, WorldState
from workbench.supervisor.worlds import Worlds

READY = WorldFact(1, 2, WorldState.READY)


def test_worlds_that_are_ready_are_calm() -> None:
    assert Worlds([READY]).are_calm


def test_worlds_that_begin_or_end_are_not_calm() -> None:
    """Each next step of theirs is found by looking."""
    starting = WorldFact(2, 2, WorldState.STARTING)
    broken = WorldFact(2, 2, WorldState.BROKEN)

    assert not Worlds().are_calm
    assert not Worlds([READY, starting]).are_calm
    assert not Worlds([READY, broken]).are_calm


def test_a_world_that_was_asked_to_end_is_not_calm() -> None:
    worlds = Worlds([READY])

    worlds.end(1, "as asked")

    assert not worlds.are_calm
