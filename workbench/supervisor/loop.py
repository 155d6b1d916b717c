"""Observe, plan, act: one turn of the loop that makes a cluster's wishes true."""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable, Sequence
from dataclasses import replace

from workbench.cluster.interface import Cluster
from workbench.core.cluster import ClusterFact, ClusterState, ClusterWish
from workbench.core.fleet import NodeState
from workbench.core.generation import (
    NOT_READY,
    Action,
    CloseCluster,
    EndWorld,
    Prepare,
    Queued,
    StartWorld,
    Submit,
    WorldFact,
    WorldState,
    cluster_state,
    plan,
)
from workbench.core.run import Run, RunKind, RunState, RunWish, length
from workbench.core.world import Host, World
from workbench.store import Store
from workbench.store.wishes import new_run_id
from workbench.supervisor.activity import Activity
from workbench.supervisor.assignment import assignment_of
from workbench.supervisor.ground import Ground
from workbench.supervisor.lender import Load
from workbench.supervisor.mail import Mail, is_urgent
from workbench.supervisor.outputs import Outputs
from workbench.supervisor.staging import data_place
from workbench.supervisor.worlds import Worlds

log = logging.getLogger("workbench.supervisor")

LOOK_SECONDS = 0.15
READ_SECONDS = 1.0


class Supervisor:
    """Makes the wishes about one cluster true.

    Args:
        name: The cluster's name.
        now: The clock, in epoch seconds.
        ground: Keeps the nodes that are to carry it; by default there is this machine alone.
        outputs: Keeps what runs leave there; by default it stays where it is.
    """

    def __init__(
        self,
        name: str,
        store: Store,
        cluster: Cluster,
        now: Callable[[], float] = time.time,
        ground: Ground | None = None,
        outputs: Outputs | None = None,
    ) -> None:
        self._name = name
        self._store = store
        self._cluster = cluster
        self._now = now
        self._ground = ground or Ground()
        self._outputs = outputs or Outputs(name, self._ground.reach)
        self._wish = ClusterWish(name, up=False, ranks=0)
        self._target: World | None = None
        self._queue: list[Run] = []
        self._fact = ClusterFact(name)
        self._activities: dict[int, Activity] = {}
        self._mail = Mail(store, cluster)
        self._worlds = Worlds()
        self._setups: list[tuple[str, str]] = []
        self._used = 0
        self._failures = 0
        self._message = ""
        self._version = -1
        self._looked = self._read = 0.0
        self._closed = False

    def open(self) -> None:
        """Take up the cluster as store and reality have it.

        Raises:
            WorkbenchError: The controller could not be started.
        """
        before = self._store.cluster_fact(self._name)
        self._fact = before
        known = {
            generation: self._store.ranks(self._name, generation)
            for generation in (before.generation - 1, before.generation)
            if generation > 0
        }
        self._read_wishes()
        joined = [n for n in self._store.nodes(self._name) if n.state is NodeState.JOINED]
        self._ground.take_up(self._wish, frozenset(n.address for n in joined), self._now)
        self._cluster.open({g: ranks for g, ranks in known.items() if ranks})
        self._look()
        self._used = self._worlds.take_up(self._setup_names())
        self._take_up_runs()
        self._outputs.open()

    def tick(self) -> bool:
        """Do one turn; false when the cluster is gone and the supervisor can end."""
        messages = self._mail.gather()
        now = self._now()
        self._mail.take(messages, self._activity_of, self._worlds.standing(), now)
        wished = self._store_changed(now)
        if wished:
            self._read_wishes()
        due = now - self._looked >= LOOK_SECONDS
        if due:
            self._look()
            self._looked = now
            self._ground.keep(self._wish, self._load(), now)
        self._advance(now)
        # Mere points change no plan, and a training's cores are dear.
        if wished or due or any(map(is_urgent, messages)):
            for action in self._plan(now):
                self._act(action, now)
            state = cluster_state(
                self._wish,
                self._target,
                self._worlds.standings(self._setup_names(), self._activities),
                failures=self._failures,
            )
            self._keep_fact(state)
            self._warm_up()
        return not self._closed

    # -- observe

    def _store_changed(self, now: float) -> bool:
        version = self._store.data_version()
        changed = version != self._version or now - self._read >= READ_SECONDS
        self._version = version
        if changed:
            self._read = now
        return changed

    def _read_wishes(self) -> None:
        wish = self._store.cluster_wish(self._name)
        if wish is not None:
            if wish.revision != self._wish.revision:
                self._failures, self._message = 0, ""
            self._wish = wish
            self._end_in_time()
        self._setups = self._store.setups(self._name)
        self._queue = []
        for run in self._store.unfinished(self._name):
            activity = self._activity_of(run.id)
            limit = "" if run.wish.stop else self._over_limit(run)
            stop = run.wish.stop or bool(limit)
            if activity is not None and stop:
                activity.wish_stop(self._now(), limit)
            elif activity is None and run.fact.state is RunState.QUEUED:
                self._queue_or_stop(run, stop or not self._wish.up)

    def _end_in_time(self) -> None:
        """Wish the cluster gone when its time to live is over, as was asked for with it."""
        wish, name = self._wish, self._name
        if wish.up and wish.fleet.expires and self._now() >= wish.fleet.expires:
            log.info("the time to live of %s is over", name)
            self._wish = self._store.wish_cluster(
                name, up=False, ranks=wish.ranks, oversubscribe=wish.oversubscribe
            )
            self._message = "Its time to live is over, and everything is deleted."

    def _queue_or_stop(self, run: Run, stop: bool) -> None:
        if stop:
            self._end_unstarted(run.id, RunState.STOPPED, "Stopped before it began.")
        else:
            self._queue.append(run)

    def _over_limit(self, run: Run) -> str:
        """Return why a run is to stop without anybody's wish; empty while it is not."""
        limit, started = run.wish.wall_clock_limit, run.fact.started
        if not (limit and started and self._now() - started > limit):
            return ""
        return f"Its wall-clock limit of {length(limit)} was over."

    def _look(self) -> None:
        now = self._now()
        for world in self._worlds.see(self._cluster.observe(), now):
            log.info("generation %d is ready: %d ranks", world.generation, world.size)
            self._store.put_ranks(self._name, self._worlds.ranks(world))
        for world in self._worlds.seen:
            if world.state in (WorldState.BROKEN, WorldState.ENDED):
                self._bury(world, now)

    def _bury(self, world: WorldFact, now: float) -> None:
        activity = self._activities.pop(world.generation, None)
        if activity is not None:
            why = world.reason or self._worlds.why_ended(world.generation) or "as asked"
            activity.bury(self._worlds.deaths(world, self._ground.why_gone), why, now)
            activity.keep()
        if world.state is WorldState.ENDED:
            log.info("generation %d has ended: %s", world.generation, world.reason or "as asked")
            if not world.ranks and world.reason:
                self._failures += 1
                self._message = f"The ranks did not start: {world.reason}"

    # -- plan

    def _setup_names(self) -> list[str]:
        return [name for name, _ in self._setups]

    def _load(self) -> Load:
        used, whole = self._worlds.hosts()
        return Load(len(self._queue), bool(self._activities), used, whole)

    def _plan(self, now: float) -> list[Action]:
        self._target = self._ground.target(self._wish, self._load().used)
        return plan(
            self._wish,
            self._target,
            self._worlds.standings(self._setup_names(), self._activities),
            [Queued(run.id, run.wish.ranks) for run in self._queue],
            next_generation=max(self._fact.generation, self._worlds.newest) + 1,
            failures=self._failures,
            now=now,
        )

    # -- act

    def _advance(self, now: float) -> None:
        for generation, activity in [*self._activities.items()]:
            activity.advance(now)
            activity.keep()
            if activity.gave_up:
                self._end_world(generation, activity.gave_up)
            if activity.over:
                self._activities.pop(generation, None)
                self._mail.forget()
                self._outputs.end(activity.run.id)

    def _act(self, action: Action, now: float) -> None:
        match action:
            case StartWorld(generation, world):
                log.info("starting generation %d: %r", generation, world)
                self._worlds.begin(generation, world.placement, now)
                self._cluster.start_world(generation, world)
                self._look()
            case EndWorld(generation, reason):
                self._end_world(generation, reason)
            case Prepare(generation):
                self._prepare(generation, now)
            case Submit(run, generation):
                self._submit(next(r for r in self._queue if r.id == run), generation)
            case CloseCluster() if self._ground.is_cleared:
                self._ground.close()
                self._outputs.close()
                self._cluster.close()
                self._fact = replace(self._fact, ranks=0, connection_file="")
                self._closed = True

    def _warm_up(self) -> None:
        """Let idle new worlds import ahead; a run that waits goes first, and imports by itself."""
        for generation in self._worlds.to_warm_up(self._setup_names(), self._activities):
            self._cluster.warm_up(generation)

    def _end_world(self, generation: int, reason: str) -> None:
        if not self._worlds.end(generation, reason):
            return
        if reason == NOT_READY:
            self._failures += 1
            self._message = f"The ranks did not start: {reason}."
        log.info("ending generation %d: %s", generation, reason)
        self._cluster.end_world(generation)
        self._look()

    def _prepare(self, generation: int, now: float) -> None:
        """Run the next set-up cell there; one that waits in the queue counts as its run."""
        name = self._worlds.prepare(generation, self._setup_names())
        source = dict(self._setups)[name]
        waiting = next(
            (r for r in self._queue if r.wish.kind is RunKind.SETUP and r.wish.source == source),
            None,
        )
        if waiting is None:
            id_ = new_run_id(now)
            text = f"{name} in generation {generation} of {self._name}"
            wish = RunWish(id_, text, RunKind.SETUP, source, self._name, created=now)
            waiting = self._store.run(self._store.wish_run(wish).id)
        self._submit(waiting, generation)

    def _submit(self, run: Run, generation: int) -> None:
        world = self._worlds.of(generation)
        self._queue = [queued for queued in self._queue if queued.id != run.id]
        ranks = run.wish.ranks or world.size
        if ranks > world.size:
            text = f"It asks for {ranks} ranks, but the cluster was resized to {world.size}."
            self._end_unstarted(run.id, RunState.FAILED, text)
            return
        fact = replace(run.fact, state=RunState.SUBMITTED, generation=generation, ranks=ranks)
        self._store.put_run_fact(run.id, state=fact.state, generation=generation, ranks=ranks)
        log.info("run %s goes to generation %d on %d ranks", run.id, generation, ranks)
        self._begin(Run(run.wish, fact), world)

    def _begin(self, run: Run, world: WorldFact) -> None:
        fresh = False
        if run.wish.kind is not RunKind.SETUP:
            fresh = self._used not in (0, world.generation)
            self._used = world.generation
        self._activities[world.generation] = Activity(
            run, world, self._store, self._cluster, now=self._now(), fresh=fresh
        )
        hosts = self._worlds.placement(world.generation)
        if run.wish.kind is not RunKind.SETUP:
            self._outputs.begin(run.id, hosts, self._wish.fleet.output)
        if run.fact.state is RunState.SUBMITTED:
            output = "" if run.wish.kind is RunKind.SETUP else self._outputs.place(run.id, hosts)
            self._cluster.submit(
                world.generation,
                assignment_of(run, data=self._data_place(hosts), output=output),
            )

    def _data_place(self, hosts: Sequence[str]) -> str:
        sessions = [self._ground.reach(Host(address, 1)) for address in hosts]
        beyond = next((session for session in sessions if session is not None), None)
        return data_place(self._name, self._wish.fleet, beyond)

    def _take_up_runs(self) -> None:
        """Go on with what a predecessor left; an engine ignores a run that it has begun."""
        worlds = {world.generation: world for world in self._worlds.standing()}
        for run in self._store.unfinished(self._name):
            if run.fact.state is RunState.QUEUED:
                continue
            world = worlds.get(run.fact.generation)
            if world is not None:
                self._begin(run, world)
            else:
                self._end_unstarted(run.id, RunState.LOST, "Its ranks ended meanwhile.")

    def _end_unstarted(self, run: str, state: RunState, message: str) -> None:
        self._store.put_run_fact(run, state=state, message=message, ended=self._now())

    def _activity_of(self, run: str) -> Activity | None:
        return next((a for a in self._activities.values() if a.run.id == run), None)

    def _keep_fact(self, state: ClusterState) -> None:
        usable = [
            s.fact
            for s in self._worlds.standings(self._setup_names(), self._activities)
            if s.usable
        ]
        fact = replace(
            self._fact,
            state=ClusterState.DOWN if self._closed else state,
            ranks=usable[-1].size if usable and not self._closed else 0,
            generation=usable[-1].generation if usable else self._fact.generation,
            message=self._message or self._ground.message or self._outputs.message,
            supervisor=0 if self._closed else os.getpid(),
            connection_file="" if self._closed else self._cluster.connection_file,
        )
        if fact != self._fact:
            self._fact = replace(fact, updated=self._now())
            self._store.put_cluster_fact(self._fact)
