"""One turn of the loop that brings the observed state to the desired one."""

from __future__ import annotations

import itertools
import logging
import math
import os
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial

from workbench.cluster.interface import Cluster
from workbench.core.cluster.generation import (
    BLAMELESS,
    NOT_READY,
    Action,
    CloseCluster,
    EndWorld,
    MoveRun,
    ObservedWorld,
    RunReplay,
    RunSetup,
    StartWorld,
    Submit,
    WorldFact,
    WorldState,
    cluster_state,
    find_shown_world,
    plan,
    world_of_cells,
)
from workbench.core.cluster.idleness import IDLE, Idleness, announcement, released_message
from workbench.core.cluster.model import (
    ClusterFact,
    ClusterState,
    ClusterWish,
    ResizeAt,
    WhenDone,
    keeps_nodes,
    time_over_message,
)
from workbench.core.cluster.side_worlds import goes_beside, plan_beside, queue_of_cells
from workbench.core.fleet.cost import RELEASE_SECONDS, RESERVE_SECONDS
from workbench.core.fleet.model import NodeState
from workbench.core.moment import Deadlines, Moment, Reckoning
from workbench.core.recovery.departure import (
    NO_NODES,
    TIME_IS_OVER,
    Departure,
    departure,
    notice_lead,
)
from workbench.core.recovery.life import (
    EndAsked,
    Life,
    MoveAsked,
    NodesNoticed,
    RankCallFailed,
    RemarkAdded,
    RunOver,
    StopAsked,
)
from workbench.core.recovery.resumption import format_stop_in_queue
from workbench.core.run.model import Run, RunKind, RunState, length
from workbench.core.supervisor import log_messages
from workbench.core.supervisor.heartbeat import PATIENCE_SECONDS
from workbench.core.world.world import Host, World
from workbench.store import Store
from workbench.store.disk import with_reserve
from workbench.store.paths import run_directory
from workbench.supervisor.activity import ActiveRuns, Activity
from workbench.supervisor.data.run_files import RunFiles
from workbench.supervisor.fleet.fleet_loop import Load
from workbench.supervisor.heartbeat import LONG_SECONDS, HeartbeatWriter, read_clocks
from workbench.supervisor.hosts import ClusterHosts
from workbench.supervisor.housekeeping import Housekeeping
from workbench.supervisor.idle_watch import IdleWatch
from workbench.supervisor.preparation import BEGAN_NOTHING, Preparation
from workbench.supervisor.rank_messages import RankMessages, is_urgent
from workbench.supervisor.run_start import RunStart
from workbench.supervisor.store_outage import StoreOutage
from workbench.supervisor.sweeps import TrialQueue
from workbench.supervisor.wake_ups import EARLY, READ_SECONDS, WakeUps
from workbench.supervisor.worlds import Worlds

log = logging.getLogger("workbench.supervisor")

EXPIRES = "expires"
ALL_ENDED = "all processes of the cluster had ended, as after a power cut"
ABANDON_SECONDS = 900.0  # after which a lease ends what a provider does not
DOES_NOT_ANSWER = "its ranks did not answer"


class Supervisor:
    """Brings the observed state of one cluster to the desired one.

    Args:
        name: The cluster's name.
        now: The clocks.
        hosts: Keeps the nodes of the cluster (default: this machine alone).
        files: Collects what runs leave on nodes (default: it is left where it is).
        heartbeat: Writes a heartbeat for other processes; None for none.
    """

    def __init__(
        self,
        name: str,
        store: Store,
        cluster: Cluster,
        now: Callable[[], Moment] = read_clocks,
        hosts: ClusterHosts | None = None,
        files: RunFiles | None = None,
        heartbeat: HeartbeatWriter | None = None,
    ) -> None:
        self._name = name
        self._store = store
        self._cluster = cluster
        self._now = now
        self._hosts = hosts or ClusterHosts()
        self._files = files or RunFiles(name, self._hosts.reach)
        self._wish = ClusterWish(name, up=False, ranks=0)
        self._target: World | None = None
        self._fact = ClusterFact(name)
        self._runs = ActiveRuns()
        self._messages = RankMessages(store, cluster, now)
        self._outage = StoreOutage(store.path)
        self._worlds = Worlds()
        self._housekeeping = Housekeeping(
            store, name, lambda: [world.generation for world in self._worlds.standing()]
        )
        self._preparation = Preparation(store, name, cluster.names)
        self._start = RunStart(
            *(store, cluster, self._hosts, self._files),
            *(self._preparation, self._worlds, self._runs, now),
        )
        self._failures = 0
        self._message = ""
        self._looked = -math.inf
        self._heartbeat = heartbeat
        began = now()
        self._deadlines, self._reckoning = (
            heartbeat.taken_over(began)
            if heartbeat
            else (Deadlines(), Reckoning(began.wall, began.steady))
        )
        self._former: Load | None = None  # while a predecessor's worlds are unknown
        self._closes = 0.0  # the end of the time to live for which runs are stopped
        self._closed = False
        self._wake_ups = WakeUps(store, cluster)
        self._watch = IdleWatch(name, store, cluster)
        self._idle = Idleness(began.wall)
        self._trials = TrialQueue(store, name, now)

    def open(self) -> None:
        """Start from what the store and the cluster have.

        Raises:
            WorkbenchError: The controller could not be started.
        """
        self._beat(LONG_SECONDS)
        before = self._store.cluster_fact(self._name)
        wish = self._store.cluster_wish(self._name)
        # Where only its time was over, a resumed run finds what ran before, as after a pause.
        was_over = wish is not None and keeps_nodes(replace(wish, up=False), before)
        was_down = before.state is ClusterState.DOWN and not was_over
        self._fact = replace(before, since=before.newest + 1 if was_down else before.since)
        on_record = self._store.generations(self._name)
        known = {number: self._store.ranks(self._name, number) for number in on_record}
        self._read_wishes()
        joined = [n for n in self._store.fleets.nodes(self._name) if n.state is NodeState.JOINED]
        self._former = Load(used=frozenset(n.address for n in joined))
        self._hosts.take_up(self._wish, self._former.used, self._reckon)
        self._cluster.open(known)
        self._former = None
        self._look()
        scripts = self._store.attempts.script_generations(self._name)
        self._worlds.take_up(self._preparation.setup_names, scripts, before.beside)
        self._take_up_runs()
        self._files.open()

    def meanwhile(self) -> None:
        """Look after nodes and limits while a controller is waited for."""
        self._beat(LONG_SECONDS)
        with self._outage.bridge():
            self._wish = self._store.cluster_wish(self._name) or self._wish
            self._end_in_time()
        with self._outage.bridge():
            load = self._former or self._load()
            self._hosts.keep(self._reckon_wish(), load, self._reckon())

    def tick(self) -> bool:
        """Do one turn; return false when the cluster is deleted and the supervisor can end.

        A full disk under the store fails no turn: ranks keep what is not acknowledged, nodes are
        deleted as desired, and what must be written waits.
        """
        self._beat()
        if self._closed:  # but the store did not take that yet
            time.sleep(READ_SECONDS)
            self._outage.turn(self._now().steady)
            return not self._outage.has_all
        calm = self._is_calm()
        pause = self._wake_ups.look_seconds(self._worlds.look_seconds, calm=calm)
        wait = self._wake_ups.wait_seconds(pause)
        messages = self._messages.gather(wait, active=bool(self._runs.on), calm=calm)
        self._wake_ups.note_wake()
        now, bridged = self._now(), self._outage.bridge
        messages = self._watch.hear(messages, self._reckon())
        self._outage.is_leaving = not self._wish.up
        self._outage.turn(now.steady)
        with bridged():
            self._messages.take(messages, self._runs.find, now)
        wished = False
        with bridged():
            wished = self._wake_ups.has_changed(now.steady)
            if wished:
                self._read_wishes()
        least = pause * EARLY if calm and messages else pause
        due = now.steady - self._looked >= least or self._cluster.has_news
        if due:
            self._looked = now.steady
            with bridged():
                self._look()
            with bridged():
                self._judge_idleness()
            with bridged():
                self._hosts.keep(self._reckon_wish(), self._load(), self._reckon())
        self._advance(now)
        with bridged():
            if self._trials.prune(now):
                self._read_wishes()
        # New points alone change no plan, and the cores are needed for training.
        if wished or due or any(is_urgent(one.message, calm=calm) for one in messages):
            with bridged():
                for action in self._plan(now):
                    self._act(action, now)
                for generation, activity in self._runs.on.items():
                    nodes = self._hosts.reclaimed(self._worlds.placement(generation))
                    activity.take(NodesNoticed(now, frozenset(nodes)))
            with bridged():
                self._keep_fact()
            self._warm_up()
        if due:
            with bridged():
                self._housekeeping.turn(self._reckon(), now.steady)
        return not (self._closed and self._outage.has_all)

    def abandon(self, *, keeps_nodes: bool = False) -> None:
        """End all worlds and delete the nodes, although the folder with their records is gone.

        Args:
            keeps_nodes: Whether another machine has the folder, and the nodes with it.
        """
        down, deadline = replace(self._wish, up=False), time.monotonic() + ABANDON_SECONDS
        for world in self._worlds.seen:
            self._cluster.end_world(world.generation)
        try:
            while not (keeps_nodes or self._hosts.is_cleared) and time.monotonic() < deadline:
                with self._outage.bridge():
                    self._hosts.keep(down, Load(), self._reckon())
                time.sleep(READ_SECONDS)
            self._hosts.close()
        finally:
            self._cluster.close()

    def _is_calm(self) -> bool:
        """Return whether nothing happens of itself, and all else wakes this process."""
        is_steady = self._wish.up and self._hosts.is_here and self._worlds.are_calm
        is_waiting = self._runs.queue or not self._outage.has_all
        are_calm = all(one.is_calm and not one.is_at_edge for one in self._runs.lives.values())
        return self._wake_ups.is_woken and is_steady and are_calm and not is_waiting

    # -- observe

    def _beat(self, patience: float = PATIENCE_SECONDS) -> None:
        if self._heartbeat:
            self._heartbeat.beat(self._now(), self._reckoning, self._deadlines, patience=patience)

    def _read_wishes(self) -> None:
        wish = self._store.cluster_wish(self._name)
        if wish is not None:
            if wish.revision != self._wish.revision:
                self._failures, self._message = 0, ""
                self._preparation.try_again(self._worlds.newest)
            self._wish = wish
            self._files.keep(wish.fleet)
            self._end_in_time()
        self._preparation.read(self._fact.since)
        is_ending = not self._wish.up or self._closes == self._wish.fleet.expires > 0
        self._trials.turn(self._target, is_ending=is_ending)
        unfinished = self._store.list_unfinished(self._name, replays=True)
        self._runs.queue = []
        for run in unfinished:
            activity = self._runs.find(run.execution)
            limit = "" if run.wish.stop else self._over_limit(run)
            stop = run.wish.stop or bool(limit)
            is_left = bool(run.wish.replays)  # a supervisor died before it submitted that
            if activity is not None and stop:
                activity.take(StopAsked(self._now(), limit))
            elif activity is None and run.fact.state is RunState.QUEUED:
                self._queue_or_stop(run, stop or is_left or is_ending)
                if (stop or is_ending) and self._trials.has_sweeps:
                    self._wake_ups.read_again()  # a trial that was stopped here has ended

    def _end_in_time(self) -> None:
        """Stop what runs before the time to live of the cluster is over, then take it down.

        Its nodes go as soon as no run is on them, and never later than the time says. The wish
        keeps their definition, so that a resumed run can have them again.
        """
        expires, now = self._wish.fleet.expires, self._now()
        if not (self._wish.up and expires):
            return self._deadlines.forget(EXPIRES)
        is_over = self._deadlines.has_come(EXPIRES, expires, now)
        left = self._deadlines.all[EXPIRES].left(now)
        copies = {one: self._files.copy_seconds(one.life.run.id) for one in self._runs.on.values()}
        lead = max((one.life.lead_seconds(copy) for one, copy in copies.items()), default=0.0)
        if is_over or left < lead:
            self._closes = expires
        if self._closes != expires:
            return None
        for activity, copy in copies.items():
            activity.take(EndAsked(now, TIME_IS_OVER, left, copy))
        if is_over or not copies:
            self._go_down(now)
        return None

    def _go_down(self, now: Moment) -> None:
        """Request that the cluster is taken down, because its time to live is over."""
        name, wish = self._name, self._wish
        log.info("The time to live of cluster %r is over.", name)
        fleet = replace(wish.fleet, expires=min(wish.fleet.expires, now.wall))
        self._wish = replace(wish, up=False, fleet=fleet)  # even if it cannot be written
        self._message = time_over_message(wish)
        with self._outage.bridge():
            self._wish = with_reserve(
                self._store.path,
                lambda: self._store.wish_cluster(
                    name, up=False, ranks=wish.ranks, oversubscribe=wish.oversubscribe, fleet=fleet
                ),
            )

    def _judge_idleness(self) -> None:
        """Decide whether the nodes are given back, or all is deleted, for lack of anything to do.

        It follows from what is stored, so that a successor decides the same.
        """
        wish, now = self._wish, self._reckon()
        self._idle, fact = self._watch.look(
            wish,
            self._fact,
            self._hosts.there,
            self._worlds.standing(),
            works=bool(self._runs.on or self._runs.queue),
            now=now,
        )
        if fact != self._fact:
            if fact.released and not self._fact.released:
                log.info("Cluster %r gives its nodes back: %s.", self._name, IDLE)
            self._put_fact(fact)
        if wish.up and self._idle.is_over(now) and self._idle.done is WhenDone.DELETE:
            log.info("Cluster %r is deleted, as a run asked that has ended.", self._name)
            self._wish = replace(wish, up=False)
            self._wish = with_reserve(
                self._store.path,
                lambda: self._store.wish_cluster(
                    self._name, up=False, ranks=wish.ranks, oversubscribe=wish.oversubscribe
                ),
            )

    def _idle_message(self) -> str:
        """Return that nodes are given back soon, or were, for lack of anything to do; or empty."""
        fact, wish, now = self._fact, self._wish, self._reckon()
        if not wish.up or self._load().busy or self._load().waiting:
            return ""
        if fact.released:
            return released_message(self._hosts.there)
        if not fact.releases:
            return ""
        price = sum(node.price for node in self._hosts.there)
        unit = wish.fleet.place.unit
        return announcement(self._name, len(self._hosts.there), price, self._idle, now, unit)

    @property
    def _why_over(self) -> str:
        """Why the cluster is taken down without a request of its user, as a clause; or empty."""
        expires = self._wish.fleet.expires
        is_down = not self._wish.up and expires <= self._now().wall
        return TIME_IS_OVER if expires and (self._closes == expires or is_down) else ""

    def _queue_or_stop(self, run: Run, stop: bool) -> None:
        if stop:
            with self._outage.bridge():  # if it fails, it is repeated at the next look
                snapshot = self._store.attempts.newest_snapshot(run.id)
                message = format_stop_in_queue(
                    run, snapshot, "" if run.wish.stop else self._why_over
                )
                self._start.end_unstarted(run, RunState.STOPPED, message)
        else:
            self._runs.queue.append(run)

    def _over_limit(self, run: Run) -> str:
        """Return why a run is to stop without a request of the user; empty if it is not."""
        limit, started = run.wish.options.wall_clock_limit, run.fact.started
        if why := self._trials.why_stopped(run.id):
            return why
        if not (limit and started):
            return ""
        if not self._deadlines.has_come(run.id, started + limit, self._now()):
            return ""
        return f"It reached its wall-clock limit of {length(limit)}."

    def _reckon(self) -> float:
        """Return the time of the fleet's accounts."""
        self._reckoning = self._reckoning.at(self._now())
        return self._reckoning.epoch

    def _reckon_wish(self) -> ClusterWish:
        """Return the wish with its end by the fleet's accounts, if the clocks disagree."""
        wish, known = self._wish, self._deadlines.all.get(EXPIRES)
        if self._reckoning.astray is None or known is None:
            return wish
        end = self._reckoning.epoch + known.steady - self._reckoning.steady
        return replace(wish, fleet=replace(wish.fleet, expires=float(round(end))))

    def _look(self) -> None:
        now = self._now()
        for world in self._worlds.see(self._cluster.observe(), now.steady):
            log.info("%s", log_messages.ready(world.generation, world.size))
            if self._failures:
                self._failures, self._message = 0, ""
            ranks = self._worlds.ranks(world)
            standing = [one.generation for one in self._worlds.standing()]
            self._outage.write(
                ("ranks", world.generation),
                partial(self._store.put_ranks, self._name, ranks, standing),
            )
        for call in self._cluster.failed_calls():
            if (activity := self._runs.find(call.run)) is not None:
                activity.take(RankCallFailed(call.rank, call.error, now))
                one, run = activity.life.world.generation, activity.life.run
                self._outage.write(
                    ("distrust", one), partial(self._preparation.distrust, one, BEGAN_NOTHING, run)
                )
        for world in self._worlds.seen:
            if world.state in (WorldState.BROKEN, WorldState.ENDED):
                with self._outage.bridge():  # what fails is repeated at the next look
                    self._bury(world, now)

    def _bury(self, world: WorldFact, now: Moment) -> None:
        """Decide what the end of a world means: first what needs the store, then the rest."""
        generation = world.generation
        activity = self._runs.on.get(generation)
        is_process = activity is not None and activity.life.run.wish.is_process
        if activity is not None and is_process and world.state is WorldState.BROKEN:
            if not activity.life.is_exiting:
                self._housekeeping.read_left(activity.life.run.id)
                activity.lose_processes(world.deaths)
            if activity.life.is_exiting:
                return  # its ranks end one after another
        if activity is not None:
            self._lose_world(world, activity, now)
        if world.deaths and self._worlds.is_unexplained(generation):
            death = self._worlds.deaths(world, self._hosts.why_gone)[0]
            self._preparation.find_cause(generation, death, activity.life if activity else None)
            self._worlds.note_break(generation)
        if activity is not None:
            del self._runs.on[generation]
            self._keep_last(activity, now)
        if world.state is WorldState.ENDED:
            self._worlds.forget(generation)
            reason = "" if activity is not None and activity.life.is_exiting else world.reason
            log.info("%s", log_messages.ended(generation, reason))
            if not world.ranks and world.reason and not world.is_lost:
                self._failures += 1
                self._message = f"The ranks did not start: {world.reason}"

    def _lose_world(self, world: WorldFact, activity: Activity, now: Moment) -> None:
        asked = self._worlds.why_ended(world.generation)
        deaths = self._worlds.deaths(world, self._hosts.why_gone)
        with activity.guard(now):
            self._housekeeping.read_left(activity.life.run.id)
            why = world.reason or asked or "as asked"
            is_asked = bool(asked) and asked not in BLAMELESS
            left = self._is_untouched(world, activity.life.run)
            activity.lose_world(deaths, why, now, is_asked=is_asked, is_untouched=left)
        if activity.life.culprit:
            self._preparation.blame(activity.life.culprit)

    def _is_untouched(self, world: WorldFact, run: Run) -> bool:
        """Return whether no rank has begun a run: none has made its log, and all are here."""
        hosts = (Host(address, 1) for address in self._worlds.placement(world.generation))
        are_here = all(self._hosts.reach(host) is None for host in hosts)
        return are_here and not any(run_directory(run.id).glob("rank-*"))

    def _keep_last(self, activity: Activity, now: Moment) -> None:
        """Write how an attempt ended, or queue the next one."""
        life = activity.life
        self._outage.write(("run", life.run.id), partial(activity.keep, now))
        self._preparation.forget()
        if life.culprit:
            self._preparation.blame(life.culprit)
        if life.waits_again:
            self._preparation.note_wait(life.run.id)
        if life.continues:
            self._wake_ups.read_again()
            with self._outage.bridge():
                self._read_wishes()  # before another run takes its place
        else:
            self._files.end(life.run.id)
            self._deadlines.forget(life.run.id)
            if self._trials.has_sweeps:
                with self._outage.bridge():
                    self._read_wishes()  # before the cores idle

    # -- plan

    def _load(self) -> Load:
        used, whole = self._worlds.hosts()
        # A run that continues by itself is active, so more nodes are not bought for it.
        waiting = sum(not run.fact.started for run in self._runs.queue)
        busy = bool(self._runs.on or self._runs.queue[waiting:])
        works, now = waiting or busy, self._reckon()
        over = IDLE if self._fact.released and not works else ""
        idle = 0.0 if works else now - self._idle.since
        return Load(waiting, busy, used, whole, self._notice_lead(), idle, over)

    def _notice_lead(self) -> float:
        """Return how long before the end of a node with a notice what runs leaves it."""
        lives = self._runs.lives.values()
        again = max((self._preparation.replay_seconds(one.run) for one in lives), default=0.0)
        stop = max((one.lead_seconds(0.0) for one in lives), default=0.0)
        return notice_lead(self._worlds.start_seconds, self._runs.begin_seconds() + again, stop)

    def _plan(self, now: Moment) -> list[Action]:
        self._target = self._hosts.target(self._wish, self._load())
        self._stop_what_stays(now)
        worlds, beside = self._split_standings()
        explained = self._preparation.explain_stays(
            worlds, self._runs.lives, self._target, self._wish.resize_at, self._departures()
        )
        for generation, stay in explained.items():
            self._runs.on[generation].take(stay)
        home, newest = world_of_cells(worlds, self._target), self._worlds.newest
        queue = self._preparation.list_queued(
            self._runs.queue,
            home.fact.generation if home else 0,
            self._trials.runs,
            [one.fact.generation for one in beside if one.usable and not one.busy],
            [one.run for one in self._runs.lives.values()],
        )
        next_generation = max(self._fact.newest, newest) + 1
        is_whole = not self._wish.up or (self._target is not None and not self._target.size)
        actions = plan(
            self._wish,
            self._target,
            [*beside, *worlds] if is_whole else worlds,
            queue if is_whole else queue_of_cells(self._target, worlds, beside, queue),
            next_generation=next_generation,
            failures=self._failures,
            now=now.steady,
            over=self._why_over,
        )
        every = [*worlds, *beside]
        if is_whole or not (beside or any(goes_beside(one, self._target, every) for one in queue)):
            return actions
        used = [self._worlds.placement(n)[: one.run.fact.ranks] for n, one in self._on_cells()]
        return actions + plan_beside(
            self._target,
            worlds,
            beside,
            queue,
            taken=[host for hosts in used for host in hosts],
            next_generation=next_generation + sum(isinstance(one, StartWorld) for one in actions),
            failures=self._failures,
            coming_trials=self._trials.coming,
            now=now.steady,
        )

    def _on_cells(self) -> list[tuple[int, Life]]:
        """Return the runs that are on worlds of the cells, with their generations."""
        found = self._runs.lives.items()
        return [(number, life) for number, life in found if number not in self._worlds.beside]

    def _split_standings(self) -> tuple[list[ObservedWorld], list[ObservedWorld]]:
        """Return the worlds of the cells, and those beside them."""
        every = self._standings()
        return (
            [one for one in every if not one.is_beside],
            [one for one in every if one.is_beside],
        )

    def _stop_what_stays(self, now: Moment) -> None:
        """Stop runs that cannot wait for other nodes, while the budget allows them to save."""
        if over := self._hosts.over:
            left = RESERVE_SECONDS - RELEASE_SECONDS
            for one in self._runs.on.values():
                if not (one.life.is_movable or one.life.is_moving):
                    one.take(EndAsked(now, over, left, 0.0))

    # -- act

    def _advance(self, now: Moment) -> None:
        for generation, activity in [*self._runs.on.items()]:
            if self._worlds.find(generation) is None:
                continue  # it has ended, and what that means is decided once the store can be read
            with self._outage.bridge(), activity.guard(now):
                activity.turn(now)
                if activity.life.over is None:
                    activity.keep(now)
            if activity.life.over is not None:
                with self._outage.bridge():  # what fails is repeated in the next turn
                    self._let_go(generation, activity, activity.life.over, now)

    def _let_go(self, generation: int, activity: Activity, over: RunOver, now: Moment) -> None:
        """Take leave of a run that is done with its world: first do what needs the store."""
        run = activity.life.run
        if over.flaw:
            sentence = self._preparation.note_flaw(run, generation, over)
            if over.is_deaf:
                activity.take(RemarkAdded(sentence))
        if over.gave_up and run.wish.kind is RunKind.SETUP and activity.life.has_failed:
            self._preparation.distrust(generation, BEGAN_NOTHING, run)
        with self._outage.bridge(), activity.guard(now):
            activity.keep(now)
        for rank in over.silent:
            self._hosts.leave(self._worlds.placement(generation)[rank], DOES_NOT_ANSWER)
        if over.gave_up:
            self._end_world(generation, over.gave_up)
        self._runs.on.pop(generation, None)
        self._messages.forget()
        self._keep_last(activity, now)

    def _act(self, action: Action, now: Moment) -> None:
        match action:
            case StartWorld(generation, world, is_beside):
                log.info("%s", log_messages.starting(generation, world.placement))
                self._worlds.begin(generation, world.placement, now.steady, is_beside=is_beside)
                beside = (*sorted(self._worlds.beside),)
                self._put_fact(
                    replace(self._fact, newest=generation, beside=beside)
                )  # for a successor
                self._cluster.start_world(generation, world)
                self._look()
            case EndWorld(generation, reason):
                self._end_world(generation, reason)
            case RunSetup(generation):
                self._start.prepare(generation, self._wish.fleet)
            case RunReplay(run, generation):
                self._start.replay(run, generation, self._wish.fleet)
            case Submit(run, generation):
                # An action before this one may have read the wishes again, and found it stopped.
                for queued in [one for one in self._runs.queue if one.id == run]:
                    self._start.submit(queued, generation, self._wish.fleet)
                    if run in self._trials.runs:
                        self._worlds.note_trial(generation)
            case MoveRun(generation):
                stays = self._target.placement if self._target else ()
                placement = self._worlds.placement(generation)
                left = ", ".join(self._hosts.reclaimed([o for o in placement if o not in stays]))
                why = "" if self._target is None or self._target.size else NO_NODES
                at = ResizeAt.STEP if self._hosts.over else self._wish.resize_at
                asked = MoveAsked(now, left, at, self._hosts.over or why)
                # An action before this one has looked again, and may have seen its world end.
                if (activity := self._runs.on.get(generation)) is not None:
                    activity.take(asked)
            case CloseCluster() if self._hosts.is_cleared and not self._runs.on:
                self._beat(LONG_SECONDS)
                self._hosts.close()
                self._files.close()
                self._cluster.close()
                self._fact = replace(self._fact, ranks=0, connection_file="")
                self._closed = True

    def _warm_up(self) -> None:
        """Let idle new worlds import in advance; a waiting run has priority, and imports itself."""
        names = self._preparation.setup_names
        for generation in self._worlds.to_warm_up(names, self._runs.on):
            self._cluster.warm_up(generation)

    def _end_world(self, generation: int, reason: str) -> None:
        if not self._worlds.end(generation, reason):
            return
        if reason == NOT_READY:
            self._failures += 1
            self._message = f"The ranks did not start: {reason}."
        log.info("%s", log_messages.ending(generation, reason))
        self._cluster.end_world(generation)
        self._look()

    def _take_up_runs(self) -> None:
        """Continue the runs of a predecessor; an engine ignores a run that it has begun."""
        worlds = {world.generation: world for world in self._worlds.standing()}
        for run in self._store.list_unfinished(self._name, replays=True):
            if run.fact.state is RunState.QUEUED:
                continue
            world = worlds.get(run.fact.generation)
            if world is not None:
                self._start.begin(run, world, self._wish.fleet, is_new=False)
            else:
                self._housekeeping.read_left(run.id)
                ended = WorldFact(run.fact.generation, run.fact.ranks, WorldState.ENDED)
                now, is_lost = self._now(), self._cluster.is_lost
                gone = Activity(run, ended, self._store, self._cluster, now=now)
                why = ALL_ENDED if is_lost else "its ranks ended while no supervisor ran"
                gone.lose_world((), why, now, is_lost=is_lost)
                self._keep_last(gone, now)

    def _keep_fact(self) -> None:
        standings, _ = self._split_standings()
        state = cluster_state(self._wish, self._target, standings, failures=self._failures)
        shown = find_shown_world(standings, self._target)
        fact = replace(
            self._fact,
            state=ClusterState.DOWN if self._closed else state,
            ranks=shown.size if shown and not self._closed else 0,
            generation=shown.generation if shown else self._fact.generation,
            message=self._message
            or " ".join(filter(None, (self._idle_message(), self._hosts.message)))
            or self._files.message,
            supervisor=0 if self._closed else os.getpid(),
            connection_file="" if self._closed else self._cluster.connection_file,
        )
        if fact != self._fact:
            self._put_fact(fact)

    def _put_fact(self, fact: ClusterFact) -> None:
        self._fact = replace(fact, updated=self._now().wall)
        self._outage.write("fact", partial(self._store.put_cluster_fact, self._fact))

    def _standings(self) -> list[ObservedWorld]:
        departures = self._departures()
        movable = [
            (generation, one.run)
            for generation, one in self._runs.lives.items()
            if one.is_movable and departures[generation] is not Departure.NEVER
        ]
        copied = {n: run.wish.restarts or self._files.has_copy(run.id) for n, run in movable}
        worlds = self._worlds.standings(self._preparation.setup_names, self._runs.on, copied)
        parts = [[one for one in worlds if one.is_beside is part] for part in (False, True)]
        judged = (self._preparation.judge_worlds(part, self._runs.lives) for part in parts)
        return [
            replace(world, is_due=departures.get(world.fact.generation) is not Departure.LATER)
            for world in sorted(itertools.chain(*judged), key=lambda one: one.fact.generation)
        ]

    def _departures(self) -> dict[int, Departure]:
        """Return what each run does about another size now, by the generation that it is on."""
        at, now = ResizeAt.STEP if self._hosts.over else self._wish.resize_at, self._now()
        return {
            generation: departure(
                at,
                life.fact,
                life.pace,
                now.steady,
                is_reclaimed=bool(self._hosts.reclaimed(self._worlds.placement(generation))),
            )
            for generation, life in self._runs.lives.items()
        }
