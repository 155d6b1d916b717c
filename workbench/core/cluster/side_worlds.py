"""Decide which worlds are beside the one of the cells, and which run goes to which.

Trials of a sweep, and scripts on some of the ranks, have a world of their own, of just their size.
So has a cell on some of the ranks while another notebook's run is on those of the cells. So as many
are under way as the cluster has slots for: no slot is in two worlds that are in use. ::

    waits ──▶ starting ──▶ usable ──▶ busy ──▶ idle ──▶ the next trial of this size, or ended
                                       │
                                       └─▶ leaves, if its slots are no longer wanted, and waits

The queue is kept: a run that has to wait for slots is not overtaken. So one that needs all ranks
begins once the trials before it have ended, and the trials after it wait for it. A world that has a
notebook's variables is kept, and takes its next cells, until its slots are no longer wanted.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from workbench.core.cluster.generation import (
    MOST_FAILURES,
    NOT_READY,
    OTHER_SIZE,
    SCRIPT_ENDED,
    START_SECONDS,
    Action,
    EndWorld,
    MoveRun,
    ObservedWorld,
    QueuedRun,
    RunReplay,
    RunSetup,
    StartWorld,
    Submit,
    WorldState,
    WorldUse,
)
from workbench.core.world.world import World

NO_TRIALS = "no trial waits for it"


def goes_beside(run: QueuedRun, target: World | None, worlds: Sequence[ObservedWorld] = ()) -> bool:
    """Return whether a run is for a world of its own beside that of the cells.

    Args:
        worlds: All worlds; the answer for a cell changes with them.
    """
    is_small = target is not None and 0 < run.ranks < target.size
    if run.is_trial or (run.is_script and is_small):
        return True
    if not (is_small and run.is_independent):
        return False
    is_taken = any(_is_on(one) for one in worlds if not one.is_beside)
    return is_taken or bool(run.replays and _has_all(run, worlds))


def places_for(target: World | None, ranks: int) -> int:
    """Return how many runs of ``ranks`` ranks are under way at once; all ranks count as one run.

    Args:
        ranks: 0 for all.
    """
    if target is None or not target.size:
        return 1
    return max(1, target.size // ranks) if ranks else 1


def queue_of_cells(
    target: World | None,
    worlds: Sequence[ObservedWorld],
    beside: Sequence[ObservedWorld],
    queue: Sequence[QueuedRun],
) -> list[QueuedRun]:
    """Return what the worlds of the cells see of the queue: nothing that has to wait for slots.

    Args:
        worlds: Those of the cells, or of scripts that take all ranks.
        beside: The others.
    """
    every = [*worlds, *beside]
    first = next(iter(queue), None)
    if first is None or goes_beside(first, target, every):
        return []
    own = [one for one in queue if not goes_beside(one, target, every)]
    if target is None:  # what is ready is used while nodes are waited for
        return own
    taken = Counter(_used(beside))
    wanted = Counter(target.placement[: first.ranks or None])
    is_free = not taken or not any((wanted + taken - Counter(target.placement)).values())
    return own if is_free else []


def plan_beside(
    target: World | None,
    worlds: Sequence[ObservedWorld],
    beside: Sequence[ObservedWorld],
    queue: Sequence[QueuedRun],
    *,
    taken: Sequence[str],
    next_generation: int,
    failures: int,
    coming_trials: int,
    now: float,
) -> list[Action]:
    """Return the next actions of the worlds beside that of the cells.

    Args:
        target: The desired world of the whole cluster; None while unknown.
        worlds: Those of the cells.
        beside: The others.
        queue: All waiting runs, oldest first.
        taken: The hosts of the ranks that other runs use, one for each.
        failures: How many worlds in a row did not become ready.
        coming_trials: How many trials of sweeps are still to be queued.
    """
    beside = [one for one in beside if one.fact.state is not WorldState.ENDED]
    if target is None:
        return []
    slots, actions = Counter(target.placement), list[Action]()
    kept = list[ObservedWorld]()
    for world in beside:
        one = _look_after(world, is_within(world, target), now)
        actions += one
        if not any(isinstance(action, EndWorld) for action in one):
            kept.append(world)
    free = slots - Counter(taken) - Counter(_used(kept))
    idle = [one for one in kept if one.usable and not one.busy and is_within(one, target)]
    spare = [one for one in idle if not one.has_variables]
    coming = [one for one in kept if one.is_coming]
    for run in queue:
        if not goes_beside(run, target, [*worlds, *beside]):
            break
        size = min(run.ranks or target.size, target.size)
        if place := _find(idle, run, size, free):
            idle.remove(place)
            free -= Counter(place.placement)
            actions.append(_begin(run, place))
        elif place := _find(coming, run, size, free):
            coming.remove(place)
            free -= Counter(place.placement)
        elif free.total() >= size and failures < MOST_FAILURES:
            share = choose_share(target, free, size)
            actions.append(StartWorld(next_generation, share, is_beside=True))
            next_generation += 1
            free -= Counter(share.placement)
            in_the_way = [one for one in spare if one in idle and Counter(one.placement) - free]
            actions += [EndWorld(one.fact.generation, OTHER_SIZE) for one in in_the_way]
            idle = [one for one in idle if one not in in_the_way]
        else:
            break
    if not coming_trials:
        spare = [one for one in spare if one in idle]
        return actions + [EndWorld(one.fact.generation, NO_TRIALS) for one in spare]
    # A script's ranks end with it: those of the next trial start while it still runs.
    fresh = [one.placement for one in (*idle, *coming) if one.use is WorldUse.FRESH]
    coming_trials -= len(fresh)
    for world in [one for one in kept if one.busy and one.use is WorldUse.SCRIPT]:
        if world.placement in fresh:
            fresh.remove(world.placement)
        elif coming_trials > 0 and failures < MOST_FAILURES and not world.replaying:
            share = _same_place(world, target)
            actions.append(StartWorld(next_generation, share, is_beside=True))
            next_generation += 1
            coming_trials -= 1
    return actions


def is_within(world: ObservedWorld, target: World) -> bool:
    """Return whether all slots of a world are among those that are wanted."""
    return bool(world.placement) and not Counter(world.placement) - Counter(target.placement)


def choose_share(target: World, free: Counter[str], size: int) -> World:
    """Return a world of ``size`` ranks on free slots, on as few hosts as possible.

    Args:
        free: The free slots of each host; ``size`` of them at least.
    """
    order = {host.address: place for place, host in enumerate(target.hosts)}
    fits = [one for one in free if free[one] >= size]
    # The host with the least room that is enough; else the largest ones. The last hosts first:
    # runs on some of the ranks of the cells' world have the first ones.
    chosen = (
        [min(fits, key=lambda one: (free[one], -order[one]))]
        if fits
        else sorted(free, key=lambda one: (-free[one], -order[one]))
    )
    hosts, left = [], size
    for host in sorted(chosen, key=lambda one: -free[one]):
        slots = min(left, free[host])
        if slots > 0:
            hosts.append(replace(target.hosts[order[host]], slots=slots))
            left -= slots
    return replace(target, hosts=(*hosts,), size=size)


def _look_after(world: ObservedWorld, is_wanted: bool, now: float) -> list[Action]:
    generation, state = world.fact.generation, world.fact.state
    if state is WorldState.BROKEN:
        return [] if world.busy else [EndWorld(generation, world.fact.reason)]
    if not is_wanted:
        if not world.busy:
            return [EndWorld(generation, OTHER_SIZE)]
        leaves = world.is_movable and world.is_due and not world.replaying
        return [MoveRun(generation)] if leaves else []
    if world.is_spent and not world.is_exiting:
        return [EndWorld(generation, SCRIPT_ENDED)]
    if world.usable or world.busy:
        return []
    if state is WorldState.READY:
        return [RunSetup(generation)]
    return [EndWorld(generation, NOT_READY)] if now - world.since > START_SECONDS else []


def _used(worlds: Sequence[ObservedWorld]) -> list[str]:
    """Return the hosts of the slots on which worlds have a run."""
    return [host for one in worlds if one.busy for host in one.placement]


def _same_place(world: ObservedWorld, target: World) -> World:
    many = Counter(world.placement)
    hosts = {host.address: host for host in target.hosts}
    share = tuple(replace(hosts[one], slots=many[one]) for one in dict.fromkeys(world.placement))
    return replace(target, hosts=share, size=len(world.placement))


def _find(
    worlds: Sequence[ObservedWorld], run: QueuedRun, size: int, free: Counter[str]
) -> ObservedWorld | None:
    """Return a world that is of a run's size, on free slots, and unused enough for it."""
    found = [
        one
        for one in worlds
        if len(one.placement) == size
        and not Counter(one.placement) - free
        and (one.use is WorldUse.FRESH or _may_follow(run, one))
    ]
    lacks = dict(run.lacks)
    return min(found, key=lambda one: len(lacks.get(one.fact.generation, ())), default=None)


def _may_follow(run: QueuedRun, world: ObservedWorld) -> bool:
    """Return whether a run may be where others were: trials and notebooks share no variables."""
    if run.is_script or world.use is WorldUse.SCRIPT:
        return False
    if run.is_trial:
        return not world.has_variables
    return world.has_variables or world.use is WorldUse.CELLS


def _has_all(run: QueuedRun, worlds: Sequence[ObservedWorld]) -> bool:
    """Return whether a world beside that of the cells has all that a cell uses."""
    having = {number for number, lacking in run.lacks if not lacking}
    return any(
        one.has_variables and one.fact.generation in having and len(one.placement) == run.ranks
        for one in worlds
    )


def _is_on(world: ObservedWorld) -> bool:
    """Return whether a run is on a world, in contrast to a set-up or an earlier cell."""
    return world.usable and world.busy and not world.replaying


def _begin(run: QueuedRun, place: ObservedWorld) -> Action:
    generation = place.fact.generation
    if replays := dict(run.lacks).get(generation, ()):
        return RunReplay(replays[0], generation)
    return Submit(run.run, generation)
