"""Decide which worlds a cluster needs next, and which run goes to which.

A generation is one MPI world with fixed ranks. A change of size is the next generation: it starts
beside the one that runs and takes over when it is ready, so nothing that runs is disturbed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from workbench.core.cluster import ClusterState, ClusterWish, RankFact

START_SECONDS = 90.0
MOST_FAILURES = 3
NOT_READY = f"it was not ready within {START_SECONDS:.0f} s"


class WorldState(StrEnum):
    """Where one MPI world stands."""

    STARTING = "starting"
    READY = "ready"
    BROKEN = "broken"
    ENDED = "ended"


@dataclass(frozen=True)
class Death:
    """A rank whose process is gone.

    Args:
        cause: What the operating system or MPI says, one line.
        trace: The Python stack that the crash left, or empty.
    """

    rank: int
    host: str
    cause: str
    trace: str = ""


@dataclass(frozen=True)
class WorldFact:
    """What is seen of one world.

    Args:
        ranks: Filled once it is ready.
        deaths: The ranks that are gone; a world with one is broken for good.
        reason: Why it ended or broke, one line, empty while it is well.
    """

    generation: int
    size: int
    state: WorldState
    ranks: tuple[RankFact, ...] = ()
    deaths: tuple[Death, ...] = ()
    reason: str = ""


@dataclass(frozen=True)
class Standing:
    """A world as the plan sees it.

    Args:
        since: Epoch seconds at which it was started.
        prepared: Whether all set-up cells have run there.
        busy: Whether a run, a set-up cell or a recovery is on there.
    """

    fact: WorldFact
    since: float
    prepared: bool
    busy: bool

    @property
    def usable(self) -> bool:
        """Whether it takes runs."""
        return self.fact.state is WorldState.READY and self.prepared


@dataclass(frozen=True)
class Queued:
    """A run that waits; ``ranks`` is 0 when it takes all."""

    run: str
    ranks: int


@dataclass(frozen=True)
class StartWorld:
    """Start the next generation."""

    generation: int
    ranks: int
    oversubscribe: bool


@dataclass(frozen=True)
class EndWorld:
    """End a generation."""

    generation: int
    reason: str


@dataclass(frozen=True)
class Prepare:
    """Run the next set-up cell there."""

    generation: int


@dataclass(frozen=True)
class Submit:
    """Give a run to a generation."""

    run: str
    generation: int


@dataclass(frozen=True)
class CloseCluster:
    """End the controller, and then the supervisor."""


Action = StartWorld | EndWorld | Prepare | Submit | CloseCluster


def plan(
    wish: ClusterWish,
    worlds: Sequence[Standing],
    queue: Sequence[Queued],
    *,
    next_generation: int,
    failures: int,
    now: float,
) -> list[Action]:
    """Return what to do next; asked twice in the same state, it says the same.

    Args:
        queue: The runs that wait, oldest first.
        failures: Worlds in a row that did not become ready, since the wish was made.
    """
    worlds = [world for world in worlds if world.fact.state is not WorldState.ENDED]
    if not wish.up:
        return _take_down(worlds)
    actions: list[Action] = [
        EndWorld(world.fact.generation, world.fact.reason)
        for world in worlds
        if world.fact.state is WorldState.BROKEN
    ]
    whole = [world for world in worlds if world.fact.state is not WorldState.BROKEN]
    usable = [world for world in whole if world.usable]
    coming = [world for world in whole if not world.usable]
    newest = usable[-1] if usable else None
    for world in coming:
        actions += _bring_up(world, wish, now)
    fits = newest is not None and newest.fact.size == wish.ranks
    if not fits and not coming and failures < MOST_FAILURES and not (newest and newest.busy):
        actions.append(StartWorld(next_generation, wish.ranks, wish.oversubscribe))
    for world in usable[:-1]:
        if not world.busy:
            actions.append(EndWorld(world.fact.generation, "replaced by the next generation"))
    if newest is not None and fits and not newest.busy and queue:
        actions.append(Submit(queue[0].run, newest.fact.generation))
    return actions


def cluster_state(wish: ClusterWish, worlds: Sequence[Standing], *, failures: int) -> ClusterState:
    """Return the one word that a person reads for all of it."""
    usable = [world for world in worlds if world.usable]
    if not wish.up:
        return ClusterState.STOPPING
    if usable and usable[-1].fact.size == wish.ranks:
        return ClusterState.READY
    if failures >= MOST_FAILURES:
        return ClusterState.FAILED
    return ClusterState.RESIZING if usable else ClusterState.STARTING


def _take_down(worlds: Sequence[Standing]) -> list[Action]:
    if not worlds:
        return [CloseCluster()]
    return [EndWorld(world.fact.generation, "the cluster was taken down") for world in worlds]


def _bring_up(world: Standing, wish: ClusterWish, now: float) -> list[Action]:
    generation = world.fact.generation
    if world.fact.size != wish.ranks:
        return [EndWorld(generation, "another size was asked for meanwhile")]
    if world.fact.state is WorldState.READY and not world.busy:
        return [Prepare(generation)]
    if world.fact.state is WorldState.STARTING and now - world.since > START_SECONDS:
        return [EndWorld(generation, NOT_READY)]
    return []
