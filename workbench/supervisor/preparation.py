"""The cells that run on new ranks before a user's run: set-up cells, and earlier cells again."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Protocol

from workbench.core.cluster.generation import ObservedWorld, Queued
from workbench.core.cluster.resize_time import ResizeAt
from workbench.core.run.cell_names import CellNames, names_of
from workbench.core.run.departure import Departure, why_it_waits
from workbench.core.run.model import Run, RunFact, RunKind, RunState, RunWish
from workbench.core.run.replay import PastCell, Replays, replays
from workbench.core.run.resumption import NONE, Attempt
from workbench.core.run.retries import MOST_VAIN
from workbench.core.world.world import World
from workbench.requests.run import new_run_id
from workbench.store import Store

REPLAY_SECONDS = 1800.0
FRESH_ENGINES = "Ran on restarted ranks: the variables of earlier cells are lost."
_MOST_NAMED = 3


class MovingRun(Protocol):
    """A run that may leave its world; see ``Activity``."""

    @property
    def run(self) -> Run:
        """The run."""
        ...

    @property
    def fact(self) -> RunFact:
        """Its observed state now."""
        ...

    @property
    def is_movable(self) -> bool:
        """Whether it can continue in another world."""
        ...

    @property
    def is_moving(self) -> bool:
        """Whether it leaves its world."""
        ...

    @property
    def is_at_edge(self) -> bool:
        """Whether its ranks wait at the edge of a training."""
        ...

    def hinder(self, why: str) -> None:
        """Record why it could not leave its ranks now."""
        ...

    def note(self, remark: str) -> None:
        """Show a remark while it lasts."""
        ...


class Preparation:
    """What the runs of one cluster need on ranks, and what has been done for it there.

    Args:
        names: The names that every rank has from its start.
    """

    def __init__(self, store: Store, cluster: str, names: frozenset[str]) -> None:
        self._store, self._cluster, self._names = store, cluster, names
        self._setups: list[tuple[str, str]] = []
        self._since = 0
        self._past: list[Run] = []
        self._present = set[tuple[int, str]]()  # generation and run
        self._failures: dict[tuple[int, str], str] = {}  # why that run was not repeated there
        self._asked: dict[tuple[str, int], list[str]] = {}  # names, by run and generation
        self._ranks: dict[str, int] = {}  # those of the run that needs an earlier one
        self._saved: dict[str, bool] = {}
        self._is_current = False
        self._needs: dict[tuple[str, int], Replays] = {}
        self._forgiven = 0
        self._harmful = set[str]()

    # -- events

    def read(self, since: int) -> None:
        """Read the set-up cells; what ran before generation ``since`` does not count."""
        setups = self._store.setups(self._cluster)
        if (setups, since) != (self._setups, self._since):
            self._setups, self._since = setups, since
            self.forget()

    def forget(self) -> None:
        """Read again what has run, since a run has ended."""
        self._saved.clear()
        self._is_current = False
        self._needs.clear()

    def distrust(self, generation: int) -> None:
        """Repeat nothing that ran there: one of its ranks could begin no other run."""
        self._read_past()
        self._harmful |= {run for at, run in self._present if at == generation}
        self.forget()

    def try_again(self, newest: int) -> None:
        """Let runs move that a failed replay has kept where they are: a new size is wanted.

        Args:
            newest: The newest generation; failures in later ones count.
        """
        self._forgiven = newest

    # -- runs

    @property
    def setup_names(self) -> list[str]:
        """The names of the set-up cells, in their order."""
        return [name for name, _ in self._setups]

    def setup_run(self, name: str, queue: Sequence[Run], generation: int, now: float) -> Run:
        """Return the run of a set-up cell; one that waits in the queue counts.

        Args:
            now: Epoch seconds.
        """
        source = dict(self._setups)[name]
        for run in queue:
            if run.wish.kind is RunKind.SETUP and run.wish.source == source:
                return run
        text = f"{name} in generation {generation} of {self._cluster}"
        wish = RunWish("", text, RunKind.SETUP, source, self._cluster, setup=name)
        return self._queued(wish, now)

    def replay_run(self, run: str, generation: int, size: int, now: float) -> Run:
        """Return a run that repeats an earlier one in a world of ``size`` ranks.

        Args:
            run: The id of the earlier one.
            now: Epoch seconds.
        """
        for left in self._store.unfinished(self._cluster, replays=True):
            if left.wish.replays == run and left.fact.state is RunState.QUEUED:
                return left  # the store was away, or a supervisor died, before it was submitted
        past = (one.wish for one in self._past if one.id == run)
        wish = next(past, None) or self._store.run(run).wish
        again = replace(
            wish,
            name=f"{wish.name:.40} again in generation {generation}",
            kind=RunKind.REPLAY,
            ranks=min(self._ranks.get(run, wish.ranks), size),
            replays=run,
            stop=False,
            wall_clock_limit=REPLAY_SECONDS,
        )
        return self._queued(again, now)

    def waiting(self, run: Run, generation: int) -> str:
        """Return the execution that came to the edge of a run's training there; empty if none."""
        found = [one.execution for one in self._store.replays(run.id, generation)]
        return found[-1] if run.fact.attempt > 1 and found else ""

    def _queued(self, wish: RunWish, now: float) -> Run:
        named = replace(wish, id=new_run_id(now), created=now)
        return self._store.run(self._store.wish_run(named).id)

    # -- what is needed

    def queued(self, queue: Sequence[Run], generation: int) -> list[Queued]:
        """Return waiting runs as values for a plan.

        Args:
            generation: The newest usable one; 0 if there is none.
        """
        first = self._lacking(queue[0], generation) if queue and generation else ()
        rest = [Queued(run.id, run.wish.ranks, is_between=bool(run.fact.started)) for run in queue]
        return [replace(one, replays=first) for one in rest[:1]] + rest[1:]

    def judged(
        self, worlds: Sequence[ObservedWorld], activities: Mapping[int, MovingRun]
    ) -> list[ObservedWorld]:
        """Add to the worlds what their runs need in the newest usable one."""
        newest = next((w.fact.generation for w in reversed(worlds) if w.usable), 0)
        judged = [_with_run(world, activities.get(world.fact.generation)) for world in worlds]
        return [
            self._judged(world, activities[world.fact.generation], newest)
            if world.is_movable
            else world
            for world in judged
        ]

    def say_what_stays(
        self,
        worlds: Sequence[ObservedWorld],
        activities: Mapping[int, MovingRun],
        target: World | None,
        at: ResizeAt,
        departures: Mapping[int, Departure],
    ) -> None:
        """Show with each run why it keeps its ranks, or until when, if it is to leave them.

        Args:
            at: When a run moves.
            departures: What each run does about another size now, by its generation.
        """
        for world in worlds:
            activity = activities.get(world.fact.generation)
            if activity is None or activity.is_moving:
                continue
            departs, remark = departures[world.fact.generation], ""
            why = self.hindrance(activity.run) if activity.is_movable else ""
            activity.hinder(why)
            if target is None or world.fits(target):
                pass
            elif why:
                remark = f"It keeps its ranks until it ends. {why}"
            elif departs is not Departure.DUE:
                remark = why_it_waits(at, activity.fact, target.size)
            activity.note(remark)

    def _judged(self, world: ObservedWorld, activity: MovingRun, newest: int) -> ObservedWorld:
        run = activity.run
        if activity.is_moving:
            return world
        refusal = self._refused(run)
        # A script that restarts begins only once its old ranks have ended: nothing runs before.
        if newest in (0, world.fact.generation) or run.wish.restarts:
            return replace(world, is_movable=not self.hindrance(run))
        return replace(
            world,
            is_movable=not self.hindrance(run),
            replays=(*self._lacking(run, newest), run.id),
            refusal=refusal,
        )

    def hindrance(self, run: Run) -> str:
        """Return why a run cannot leave its world, in sentences; empty if it can."""
        if refusal := self._refused(run):
            return f"{refusal} Another resize tries it again."
        return self._needed(run, 0).hindrance

    def _refused(self, run: Run) -> str:
        """Return why something that the run needs failed in a newer world than its own."""
        after = max(run.fact.generation, self._forgiven)
        needed = {*_certain(self._needed(run, 0)), run.id}
        failures = self._failures.items()
        found = (why for (at, one), why in failures if at > after and one in needed)
        return next(found, "")

    def why_not_continued(self, run: Run, generation: int) -> str:
        """Return why a run that has lost its world does not continue; empty if it does.

        One that was resumed by hand is not held back.
        """
        if (last := self._left(run)) is None:
            return ""
        why = self._refusal(run, generation) or self._needed(run, generation).why_not
        resume = f"Resume it with `workbench run --resume {shlex.quote(run.wish.name)}`."
        return f"{last.message} {why} {resume}" if why else ""

    def notice(self, run: Run, generation: int, *, fresh: bool) -> str:
        """Return what the message of a run has to say of what earlier cells have left.

        Args:
            fresh: Whether its ranks are not those of the run before it.
        """
        if refusal := self._refusal(run, generation):
            return refusal
        if asked := self._asked.get((run.id, generation)):
            return f"Repeated before it on these ranks: {_listed(asked)}."
        if not fresh or run.wish.kind is RunKind.SCRIPT or self._left(run):
            return ""
        return " ".join(filter(None, (FRESH_ENGINES, self._needed(run, generation).why_not)))

    # -- inside

    def _left(self, run: Run) -> Attempt | None:
        """Return the attempt that a run continues by itself, if it does."""
        last = next(reversed(self._store.attempts(run.id)), None) if run.fact.attempt > 1 else None
        return last if last and last.is_automatic else None

    def _lacking(self, run: Run, generation: int) -> tuple[str, ...]:
        """Return the earlier runs whose cells have yet to run there."""
        needed = self._needed(run, generation).runs
        names = {one.id: one.wish.name for one in self._past}
        self._ranks.update(dict.fromkeys(needed, run.wish.ranks))
        if needed:
            self._asked.setdefault((run.id, generation), [names[one] for one in needed])
        return tuple(one for one in needed if (generation, one) not in self._failures)

    def _refusal(self, run: Run, generation: int) -> str:
        """Return why an earlier cell that a run needs could not be repeated there."""
        needed = _certain(self._needed(run, generation))
        tried = (self._failures.get((generation, one)) for one in needed)
        return next(filter(None, tried), "")

    def _needed(self, run: Run, generation: int) -> Replays:
        if run.wish.kind is not RunKind.CELL:
            return Replays()
        self._read_past()
        key = (run.execution, generation)
        if key not in self._needs:
            self._needs[key] = replays(
                _names(run.wish),
                [self._seen(one, generation) for one in self._past if one.id != run.id],
                known=self._names,
                prepared=[names_of(source) for _, source in self._setups],
            )
        return self._needs[key]

    def _read_past(self) -> None:
        if self._is_current:
            return
        found = self._store.cells(self._cluster, self._since)
        by_id = {one.id: one for one in found if one.wish.kind is not RunKind.REPLAY}
        self._past, self._is_current = [*by_id.values()], True
        self._present = {(one.fact.generation, one.id) for one in self._past}
        self._failures = {}
        lost = Counter[str]()
        for again in found:
            if again.wish.kind is RunKind.REPLAY:
                repeated, state = again.wish.replays, again.fact.state
                earlier = by_id.get(repeated)
                place = (again.fact.generation, repeated)
                lost[repeated] = lost[repeated] + 1 if state is RunState.LOST else 0
                if earlier and state in (RunState.FINISHED, earlier.fact.state):
                    self._present.add(place)
                elif not 0 < lost[repeated] <= MOST_VAIN:  # its world was lost, or not wanted
                    self._failures[place] = _failure(again, is_own=earlier is None)

    def _seen(self, run: Run, generation: int) -> PastCell:
        fact = run.fact
        seconds = max(0.0, fact.ended - fact.started)
        trained = fact.iteration > 0
        return PastCell(
            run.id,
            run.wish.name,
            _names(run.wish),
            fact.state,
            is_present=(generation, run.id) in self._present,
            seconds=seconds,
            trained=trained,
            saved=trained and self.has_snapshot(run.id),
            is_harmful=run.id in self._harmful,
        )

    def has_snapshot(self, run: str) -> bool:
        """Return whether a run that has ended has reported a snapshot."""
        if run not in self._saved:
            self._saved[run] = self._store.newest_snapshot(run) != NONE
        return self._saved[run]


def _names(wish: RunWish) -> CellNames:
    return names_of(wish.source, frozenset(dict(wish.parameters)))


def _certain(needed: Replays) -> list[str]:
    return [one for one in needed.runs if one not in needed.in_doubt]


def _with_run(world: ObservedWorld, activity: MovingRun | None) -> ObservedWorld:
    if activity is None:
        return world
    wish, edge = activity.run.wish, activity.is_at_edge
    return replace(
        world,
        run=wish.replays or wish.id,
        replaying=bool(wish.replays),
        at_edge=edge,
        is_leaving=activity.is_moving,
    )


def _failure(again: Run, *, is_own: bool) -> str:
    """Return why a replay did not end as the run that it repeats.

    Args:
        is_own: Whether it was to come to the edge of the training of a run that moves.
    """
    fact = again.fact
    why = f"rank {fact.failed_rank}: {fact.failure}" if fact.failure else f"it {fact.state}"
    log = f"`workbench logs {shlex.quote(again.wish.name)}`"
    what = "Its cell did not come to its training" if is_own else "A cell could not be repeated"
    return f"{what} on the new ranks ({why}; see {log})."


def _listed(names: Sequence[str]) -> str:
    shown = ", ".join(repr(name) for name in names[:_MOST_NAMED])
    rest = len(names) - _MOST_NAMED
    return f"{shown} and {rest} more" if rest > 0 else shown
