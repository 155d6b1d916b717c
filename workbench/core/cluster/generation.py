"""Decide which worlds a cluster needs next, and which run goes to which.

A generation is one MPI world with fixed ranks, because MPI worlds can neither lose a member nor
grow over hosts. So each change of size or of hosts is a new generation: it starts beside the one
that runs, and takes over once it is ready and that one's run has ended or has left it. ::

    StartWorld ──▶ starting ──▶ ready ──▶ set-up cells ──▶ usable ──▶ busy with a run or a replay
                      │           │            │             │              │
                      │           │            │             └── EndWorld ◀─┘ once it is idle and
                      │           │            │                 a newer one is usable, or no
                      │           │            │                 ranks are wanted
                      │           └────────────┴──▶ EndWorld   another size is wanted meanwhile
                      ├──▶ EndWorld   not ready within START_SECONDS
                      └──▶ broken ──▶ EndWorld   a rank's process is gone; from any state

A new world is started only if none fits, none is starting, and the newest usable one is idle or
its run saves snapshots. Such a run leaves its world at the next boundary once the new one is
usable, and continues there before any other run. If the new world does not become ready, the run
has lost nothing. Any other run is waited for. Where the end of an epoch was asked for, the run
stays until ``is_due``, while the new world waits at the edge. Where its own end was asked for, it
counts as one that cannot move. If no ranks are wanted, a run that can move leaves all the same, and
waits for others. A run that has left for a world continues there even if yet another size is wanted
meanwhile: it trains until the next one is ready.
Before a run goes to a world, the earlier cells that it needs are repeated there, while it still
runs in its old world. Then its own cell begins there, and waits at the edge of its training::

    usable ──▶ earlier cells ──▶ the run's cell ──▶ at the edge ──▶ busy with the run
                   │                  │                 │      MoveRun: the run leaves its old world
                   └──────────────────┴──▶ EndWorld ◀───┘      at a boundary, or loses it
                        one failed, or another size       the run has ended
                        is wanted meanwhile

So whatever fails before the edge costs the run nothing, and the run pauses only while its state is
saved and read.

A script is a process, so its ranks are its own: it gets a world in which nothing has run but set-up
cells, and its ranks end with it. The world of the cells stays beside it, with their variables::

    fresh ──▶ busy with a script ──▶ leaving: its ranks end by themselves ──▶ ended
      └─────▶ busy with a cell ──▶ idle, with the variables of cells ──▶ …

Where the cells have no world, one fresh world waits for what comes next. Otherwise a fresh one is
started for a script once it is its turn, and for as long as that is so.
``MOST_FAILURES`` worlds in a row that did not become ready stop this until the wish changes. Those
whose host was lost do not count: the next world is on the hosts that are left.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from enum import StrEnum

from workbench.core.cluster.model import ClusterState, ClusterWish
from workbench.core.world.world import RankFact, World

START_SECONDS = 90.0
MOST_FAILURES = 3
OTHER_SIZE = "another size was requested meanwhile"
NOT_READY = f"it was not ready within {START_SECONDS:.0f} s"
SCRIPT_ENDED = "its script has ended"
NO_SCRIPT = "no script waits for it"
BLAMELESS = frozenset({OTHER_SIZE, NOT_READY})
"""Why a supervisor ends worlds that it takes for unused; a run in one, which a supervisor has begun
there before it was killed, is not over."""


class WorldState(StrEnum):
    """The state of one MPI world."""

    STARTING = "starting"
    READY = "ready"
    BROKEN = "broken"
    ENDED = "ended"


@dataclass(frozen=True)
class Death:
    """A rank whose process has ended.

    Args:
        cause: The cause as reported by the operating system or MPI, one line.
        trace: The Python stack that the crash left, or empty.
        words: The last output of the rank that no message contains yet.
        is_lost: Whether its node is gone, so that the rank itself is not at fault.
        is_abort: Whether the program itself ended the world, by ``MPI_Abort``.
        is_plain: Whether nothing says that it did not exit in order.
    """

    rank: int
    host: str
    cause: str
    trace: str = ""
    words: str = ""
    is_lost: bool = False
    is_abort: bool = False
    is_plain: bool = False

    @property
    def is_kill(self) -> bool:
        """Whether something outside of the rank may have killed it: a person, or a full memory."""
        return "signal 9 " in self.cause

    @property
    def report(self) -> str:
        """The stack and the last output of the rank, as text."""
        words = f"Its last output:\n{self.words}" if self.words else ""
        return "\n".join(filter(None, (self.trace, words)))


@dataclass(frozen=True)
class WorldFact:
    """The observed state of one world.

    Args:
        ranks: Known once it is ready.
        deaths: The ranks that have ended; a world with one is broken for good.
        reason: Why it ended or broke, one line; empty while it is healthy.
        is_lost: Whether it did so because one of its hosts was out of reach.
    """

    generation: int
    size: int
    state: WorldState
    ranks: tuple[RankFact, ...] = ()
    deaths: tuple[Death, ...] = ()
    reason: str = ""
    is_lost: bool = False


@dataclass(frozen=True)
class FailedCall:
    """A rank whose engine could not begin the run, or not end it.

    Args:
        error: The last line of the error.
    """

    run: str
    rank: int
    error: str


class WorldUse(StrEnum):
    """What has run in a world, besides set-up cells."""

    FRESH = "fresh"
    CELLS = "cells"
    TRIALS = "trials"
    SCRIPT = "script"


@dataclass(frozen=True)
class ObservedWorld:
    """A world as the plan sees it.

    Args:
        since: When it was started, by the steady clock.
        prepared: Whether all set-up cells have run there.
        busy: Whether a run, a set-up cell or a recovery is active there.
        placement: The host address of every rank, in rank order.
        is_movable: Whether its run has saved a snapshot, and can continue in another world; also
            while it leaves.
        is_copied: Whether a snapshot of its run is in a durable place, for hosts that have none.
        replays: Earlier cells that its run needs and that the newest usable world lacks, by run.
        refusal: Why its run cannot continue in the newest usable world; empty if it can.
        run: The run that is active there; for a replay the one that is repeated.
        replaying: Whether that is a replay.
        at_edge: Whether all ranks wait at the edge of the training of ``run``.
        is_due: Whether its run may leave now, if it can move at all.
        is_leaving: Whether its run was asked to leave for another world.
        use: What has run there; the world of a script takes no other run.
        is_exiting: Whether its script has come to its end, so that its ranks end by themselves.
        is_beside: Whether it is beside the world of the cells.
        has_variables: Whether a notebook's cell has run there, that was no trial of a sweep.
    """

    fact: WorldFact
    since: float
    prepared: bool
    busy: bool
    placement: tuple[str, ...]
    is_movable: bool = False
    is_copied: bool = False
    replays: tuple[str, ...] = ()
    refusal: str = ""
    run: str = ""
    replaying: bool = False
    at_edge: bool = False
    is_due: bool = True
    use: WorldUse = WorldUse.FRESH
    is_exiting: bool = False
    is_leaving: bool = False
    is_beside: bool = False
    has_variables: bool = False

    @property
    def usable(self) -> bool:
        """Whether it takes runs, or has one."""
        is_up = self.fact.state is WorldState.READY and self.prepared
        return (is_up and not self.is_spent) or self.is_exiting

    @property
    def is_spent(self) -> bool:
        """Whether the script that it was for has ended."""
        return self.use is WorldUse.SCRIPT and not self.busy

    @property
    def is_coming(self) -> bool:
        """Whether it is to take runs, and does not yet."""
        is_whole = self.fact.state in (WorldState.STARTING, WorldState.READY)
        return is_whole and not (self.usable or self.is_spent)

    def fits(self, target: World | None) -> bool:
        """Return whether it has the desired ranks and hosts; true while these are unknown.

        A world that a supervisor was starting when it ended has no known hosts, and is replaced.
        """
        return bool(self.placement) and (target is None or self.placement == target.placement)

    def can_move_to(self, target: World | None) -> bool:
        """Return whether its run can continue there, where a host has or gets its snapshots."""
        if target is None or not self.is_movable:
            return False
        return self.is_copied or not {*self.placement}.isdisjoint(target.placement)


@dataclass(frozen=True)
class QueuedRun:
    """A waiting run.

    Args:
        ranks: 0 if it takes all.
        replays: Earlier cells that it needs and that the world of the cells lacks, by run.
        is_between: Whether it has left its world, to continue in another one.
        is_script: Whether it needs a fresh world.
        is_trial: Whether it is a trial of a sweep; see ``core.cluster.side_worlds``.
        is_independent: Whether it is a cell of a notebook that has no run before it, and what it
            uses can be repeated in another world.
        lacks: The earlier cells that each idle world beside that of the cells lacks for it, by
            generation.
    """

    run: str
    ranks: int
    replays: tuple[str, ...] = ()
    is_between: bool = False
    is_script: bool = False
    is_trial: bool = False
    is_independent: bool = False
    lacks: tuple[tuple[int, tuple[str, ...]], ...] = ()


@dataclass(frozen=True)
class StartWorld:
    """Start the next generation.

    Args:
        is_beside: Whether it is beside the world of the cells.
    """

    generation: int
    world: World
    is_beside: bool = False


@dataclass(frozen=True)
class EndWorld:
    """End a generation."""

    generation: int
    reason: str


@dataclass(frozen=True)
class RunSetup:
    """Run the next set-up cell there."""

    generation: int


@dataclass(frozen=True)
class RunReplay:
    """Repeat an earlier run's cell there, or begin that of the run that is to move there."""

    run: str
    generation: int


@dataclass(frozen=True)
class Submit:
    """Submit a run to a generation."""

    run: str
    generation: int


@dataclass(frozen=True)
class MoveRun:
    """Let the run of a generation leave at its next boundary, and queue it for the next world."""

    generation: int


@dataclass(frozen=True)
class CloseCluster:
    """End the controller, and then the supervisor."""


Action = StartWorld | EndWorld | RunSetup | RunReplay | Submit | MoveRun | CloseCluster


def plan(
    wish: ClusterWish,
    target: World | None,
    worlds: Sequence[ObservedWorld],
    queue: Sequence[QueuedRun],
    *,
    next_generation: int,
    failures: int,
    now: float,
    over: str = "",
) -> list[Action]:
    """Return the next actions; the same state always has the same ones.

    Args:
        target: The desired world, without ranks if none is wanted; None while unknown, for lack
            of nodes.
        queue: The waiting runs, oldest first.
        failures: How many worlds in a row did not become ready since the wish was made.
        over: Why a cluster goes down that no user has deleted, as a clause; else empty.
    """
    worlds = [world for world in worlds if world.fact.state is not WorldState.ENDED]
    if not wish.up:
        return _take_down(worlds, over or "the cluster was deleted")
    actions: list[Action] = [
        EndWorld(world.fact.generation, world.fact.reason)
        for world in worlds
        if world.fact.state is WorldState.BROKEN and not world.busy
    ]
    usable = [world for world in worlds if world.usable]
    coming = [world for world in worlds if world.is_coming]
    newest, home = usable[-1] if usable else None, world_of_cells(worlds, target)
    fresh = _fresh(usable, target) if queue and queue[0].is_script else None
    for world in coming:
        actions += _bring_up(world, target, now)
    is_hindered = coming or failures >= MOST_FAILURES or not _may_start(newest, target)
    if target is not None and target.size and not is_hindered and _lacks(usable, target, queue):
        actions.append(StartWorld(next_generation, target))
    actions += _end_superfluous(worlds, {home, fresh, _find_awaited(usable, target)}, target)
    if _is_empty(target):
        return [*actions, *_clear(usable)]
    if newest is not None:
        busy = [world for world in usable[:-1] if world.busy]
        older = [world for world in busy if not world.fits(target)]
        is_free = newest.at_edge or not newest.busy
        place = fresh if queue and queue[0].is_script else home
        if newest.fits(target) and is_free and _is_wanted(newest, older, target):
            actions += _occupy(newest, older, queue, target)
        elif not newest.fits(target) and is_free and (submits := _arrive(newest, queue)):
            actions += submits
        elif not newest.fits(target) and newest.replaying and not _is_awaited(newest, busy):
            actions.append(EndWorld(newest.fact.generation, OTHER_SIZE))
        elif place is not None and place.fits(target) and not _is_taken(usable, target):
            actions += _begin_next(place, queue)
    return actions


def world_of_cells(worlds: Sequence[ObservedWorld], target: World | None) -> ObservedWorld | None:
    """Return the world in which the next cell runs; None if there is none.

    It is the newest that fits and has variables of cells, or else the newest that fits.
    """
    found = [world for world in worlds if world.usable and world.use is not WorldUse.SCRIPT]
    fitting = [world for world in found if world.fits(target)]
    used = [world for world in fitting if world.use is WorldUse.CELLS]
    return next((some[-1] for some in (used, fitting, found) if some), None)


def find_shown_world(worlds: Sequence[ObservedWorld], target: World | None) -> WorldFact | None:
    """Return the world whose ranks a view shows: that of the cells, or else that of a script."""
    home, usable = world_of_cells(worlds, target), [world for world in worlds if world.usable]
    return home.fact if home else usable[-1].fact if usable else None


def cluster_state(
    wish: ClusterWish, target: World | None, worlds: Sequence[ObservedWorld], *, failures: int
) -> ClusterState:
    """Return the state of the cluster as one word for the user."""
    usable = [world for world in worlds if world.usable]
    if not wish.up:
        return ClusterState.STOPPING
    if _is_empty(target):
        return ClusterState.RESIZING if usable else ClusterState.PAUSED
    if target is not None and any(world.fits(target) for world in usable):
        return ClusterState.READY
    if failures >= MOST_FAILURES:
        return ClusterState.FAILED
    return ClusterState.RESIZING if usable else ClusterState.STARTING


def _may_start(newest: ObservedWorld | None, target: World | None) -> bool:
    """Return whether a world may start beside the newest usable one."""
    return newest is None or not newest.busy or newest.can_move_to(target)


def _lacks(usable: Sequence[ObservedWorld], target: World, queue: Sequence[QueuedRun]) -> bool:
    """Return whether a world is missing: of the desired size, or for the script that is next."""
    if not any(world.fits(target) for world in usable):
        return True
    is_next = bool(queue) and queue[0].is_script and not _is_taken(usable, target)
    return is_next and _fresh(usable, target) is None


def _fresh(usable: Sequence[ObservedWorld], target: World | None) -> ObservedWorld | None:
    """Return the world for the next script."""
    found = [world for world in usable if world.use is WorldUse.FRESH and not world.busy]
    return next((world for world in reversed(found) if world.fits(target)), None)


def _find_awaited(usable: Sequence[ObservedWorld], target: World | None) -> ObservedWorld | None:
    """Return the world to which a run is to move."""
    is_left = any(world.busy and not world.fits(target) for world in usable)
    return usable[-1] if is_left and usable[-1].fits(target) else None


def _is_taken(usable: Sequence[ObservedWorld], target: World | None) -> bool:
    """Return whether a run has the desired ranks: runs come one after another."""
    return any(world.busy and world.fits(target) for world in usable)


def _end_superfluous(
    worlds: Sequence[ObservedWorld], kept: Collection[ObservedWorld | None], target: World | None
) -> list[Action]:
    """End idle worlds that nothing is going to use."""
    actions: list[Action] = []
    for world in worlds:
        if world.busy or world.fact.state is not WorldState.READY:
            continue
        if world.is_spent:
            actions.append(EndWorld(world.fact.generation, SCRIPT_ENDED))
        elif world.usable and _is_empty(target):
            actions.append(EndWorld(world.fact.generation, "no ranks are wanted"))
        elif world.usable and world not in kept:
            why = NO_SCRIPT if world.fits(target) else "replaced by the next generation"
            actions.append(EndWorld(world.fact.generation, why))
    return actions


def _is_wanted(newest: ObservedWorld, older: Sequence[ObservedWorld], target: World | None) -> bool:
    """Return whether the newest world is for the run of an older one."""
    return newest.at_edge or any(one.refusal or one.can_move_to(target) for one in older)


def _occupy(
    newest: ObservedWorld,
    older: Sequence[ObservedWorld],
    queue: Sequence[QueuedRun],
    target: World | None,
) -> list[Action]:
    """Give the newest world the run of an older one that does not fit, if it can move."""
    generation = newest.fact.generation
    if refusals := [world.refusal for world in older if world.refusal]:
        return [EndWorld(generation, refusals[0])]
    leaving = [world for world in older if world.can_move_to(target)]
    if newest.at_edge:
        return _release(newest, leaving, queue)
    if replays := next(filter(None, (world.replays for world in leaving)), ()):
        return [RunReplay(replays[0], generation)]
    return [MoveRun(world.fact.generation) for world in leaving if world.is_due]


def _begin_next(place: ObservedWorld, queue: Sequence[QueuedRun]) -> list[Action]:
    """Begin the next run that waits, or an earlier cell that it needs."""
    generation = place.fact.generation
    if replays := next((one.replays for one in queue[:1]), ()):
        return [RunReplay(replays[0], generation)]
    return [Submit(one.run, generation) for one in queue[:1]]


def _release(
    newest: ObservedWorld, leaving: Sequence[ObservedWorld], queue: Sequence[QueuedRun]
) -> list[Action]:
    """Bring the run that is awaited at the edge there, if it is still to come."""
    generation = newest.fact.generation
    if moves := [world for world in leaving if world.run == newest.run]:
        return [MoveRun(world.fact.generation) for world in moves if world.is_due]
    if any(one.run == newest.run for one in queue):
        return [Submit(newest.run, generation)]
    return [EndWorld(generation, "the run that was to continue there has ended")]


def _clear(usable: Sequence[ObservedWorld]) -> list[Action]:
    """Empty all worlds, because no ranks are wanted: runs leave that can continue elsewhere."""
    replays: list[Action] = [
        EndWorld(world.fact.generation, OTHER_SIZE) for world in usable if world.replaying
    ]
    leaving = [world for world in usable if world.busy and not world.replaying]
    return replays + [
        MoveRun(world.fact.generation) for world in leaving if world.is_movable and world.is_due
    ]


def _is_awaited(newest: ObservedWorld, older: Sequence[ObservedWorld]) -> bool:
    """Return whether a run leaves its world for this one, though another size is wanted."""
    return newest.at_edge and any(one.is_leaving and one.run == newest.run for one in older)


def _arrive(newest: ObservedWorld, queue: Sequence[QueuedRun]) -> list[Action]:
    """Submit a run that has left its world to this one, though another size is wanted."""
    first = queue[0] if queue else None
    if first is None or not first.is_between or first.replays or not newest.placement:
        return []  # hosts that are unknown get no snapshot
    is_idle = not newest.busy and (newest.use is WorldUse.FRESH or not first.is_script)
    is_for_it = newest.run == first.run if newest.at_edge else is_idle
    return [Submit(first.run, newest.fact.generation)] if is_for_it else []


def _take_down(worlds: Sequence[ObservedWorld], why: str) -> list[Action]:
    if not worlds:
        return [CloseCluster()]
    return [EndWorld(world.fact.generation, why) for world in worlds]


def _is_empty(target: World | None) -> bool:
    return target is not None and not target.size


def _bring_up(world: ObservedWorld, target: World | None, now: float) -> list[Action]:
    generation = world.fact.generation
    if not world.fits(target):
        return [EndWorld(generation, OTHER_SIZE)]
    if world.fact.state is WorldState.READY and not world.busy:
        return [RunSetup(generation)]
    if world.fact.state is WorldState.STARTING and now - world.since > START_SECONDS:
        return [EndWorld(generation, NOT_READY)]
    return []
