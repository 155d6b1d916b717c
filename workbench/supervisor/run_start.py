"""Begin runs on the ranks of a world, or end them before they have begun."""

from __future__ import annotations

import contextlib
import logging
import random
import socket
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

from workbench.cluster.interface import Cluster
from workbench.core.cluster.generation import WorldFact
from workbench.core.fleet.model import FleetWish
from workbench.core.moment import Moment
from workbench.core.recovery.resumption import (
    NO_COPY,
    NONE,
    Attempt,
    insists,
    kept_ranks,
    was_lost,
    why_it_keeps,
    why_stopped,
)
from workbench.core.run.batch import early_environment
from workbench.core.run.model import Assignment, Run, RunState, torchelastic_environment
from workbench.core.run.rank_protocol import ContinueAs, IteratorUndivided
from workbench.core.supervisor import log_messages
from workbench.core.world.world import PORT_RANGE, Host
from workbench.store import Store
from workbench.store.paths import run_directory
from workbench.supervisor.activity import ActiveRuns, Activity
from workbench.supervisor.data.run_files import RunFiles
from workbench.supervisor.data.staging import data_place
from workbench.supervisor.hosts import ClusterHosts
from workbench.supervisor.preparation import Preparation
from workbench.supervisor.worlds import Worlds

log = logging.getLogger("workbench.supervisor")


class RunStart:
    """Begins the runs of one cluster, on the ranks of a world."""

    def __init__(
        self,
        store: Store,
        cluster: Cluster,
        cluster_hosts: ClusterHosts,
        files: RunFiles,
        preparation: Preparation,
        worlds: Worlds,
        runs: ActiveRuns,
        now: Callable[[], Moment],
    ) -> None:
        self._store, self._cluster, self._now = store, cluster, now
        self._hosts, self._files, self._preparation = cluster_hosts, files, preparation
        self._worlds, self._runs = worlds, runs

    def prepare(self, generation: int, fleet: FleetWish) -> None:
        """Run the next set-up cell there; if it is queued as a run, that run counts."""
        name, runs = self._worlds.next_setup(generation, self._preparation.setup_names), self._runs
        if not name:
            return
        run = self._preparation.setup_run(name, runs.queue, generation, self._now().wall)
        if run not in runs.queue:
            runs.queue.append(run)  # if it is not submitted now, no other one is queued
        self.submit(run, generation, fleet)
        self._worlds.note_setup(generation, name)

    def replay(self, run: str, generation: int, fleet: FleetWish) -> None:
        """Repeat an earlier run there."""
        if (world := self._worlds.find(generation)) is not None:
            self._announce(generation)
            now = self._now().wall
            again = self._preparation.replay_run(run, generation, world.size, now)
            self.submit(again, generation, fleet)

    def submit(self, run: Run, generation: int, fleet: FleetWish) -> None:
        """Begin a run: first read and write what is needed, so that it is repeated as a whole."""
        # An action before this one has looked again, and may have seen its world end.
        if (world := self._worlds.find(generation)) is None:
            return
        hosts = self._worlds.placement(generation)
        if not self._files.can_begin(run, hosts, fleet):
            return  # its snapshots are on their way there
        run = self._check_begin(run)
        ranks = self._choose_ranks(run, world.size, hosts, fleet)
        if not ranks:
            return  # it waits for as many as it had
        text = self._preparation.why_not_begun(run, generation)
        if ranks > world.size:
            text = f"It asks for {ranks} ranks, but the cluster was resized to {world.size}."
        if text:
            self.end_unstarted(run, RunState.FAILED, text)
        else:
            if (waiting := self._runs.on.get(generation)) is not None:
                self._end_waiting(waiting.life.run, run)
            fact = replace(run.fact, state=RunState.SUBMITTED, generation=generation, ranks=ranks)
            self.begin(Run(run.wish, fact), world, fleet, is_new=True)
        self._runs.queue = [queued for queued in self._runs.queue if queued.id != run.id]

    def begin(self, run: Run, world: WorldFact, fleet: FleetWish, *, is_new: bool) -> None:
        """Begin a run on a world, or take over one that an earlier supervisor has begun there."""
        generation, notice = world.generation, ""
        hosts, is_asked = self._worlds.placement(generation), not run.wish.kind.prepares
        if is_asked:
            fresh = self._worlds.is_fresh(generation)
            notice = self._preparation.notice(run, generation, fresh=fresh)
        activity = Activity(
            run,
            world,
            self._store,
            self._cluster,
            now=self._now(),
            notice=notice,
            replaces=self._hosts.replaces,
            may_wait=is_asked and self._preparation.may_wait(run.id),
        )
        submit = None
        if run.fact.state is RunState.SUBMITTED:
            submit = self._build_submit(run, activity.life.carrier, hosts, fleet)
        if is_new:
            state, ranks = run.fact.state, run.fact.ranks
            self._store.put_run_fact(run.id, state=state, generation=generation, ranks=ranks)
            log.info("%s", log_messages.begins(run.wish.name, generation, ranks))
        if is_asked:
            self._preparation.note_begin(run, generation)
        self._worlds.use(generation, run.wish)
        self._runs.on[generation] = activity
        self._files.begin(run, hosts, fleet)
        if submit is not None:
            activity.begin(submit)

    def end_unstarted(self, run: Run, state: RunState, message: str) -> None:
        """End a run that waits."""
        was_stopped = state is RunState.STOPPED and run.fact.attempt > 1
        self._store.put_run_fact(
            run.id,
            state=state,
            message=message,
            remark=why_stopped(message) if state is RunState.STOPPED else "",
            ended=self._now().wall,
            stopped_at=run.fact.iteration if was_stopped else -1,
        )
        log.info("%s", log_messages.run_ended(run.wish.name, state, message))

    # -- inside

    def _announce(self, generation: int) -> None:
        """Have the run that waits say which earlier cells are repeated first."""
        for run in self._runs.queue[:1]:
            message = self._preparation.announcement(run, generation)
            if message and run.fact.attempt == 1 and message != run.fact.message:
                self._store.put_run_fact(run.id, message=message)

    def _check_begin(self, run: Run) -> Run:
        """Return a run that can begin; it begins again if no copy of its snapshots is left."""
        if not self._files.has_lost_all(run):
            return run
        if self._store.attempts.newest_snapshot(run.id) != NONE:
            self._store.attempts.forget_snapshots(run.id, NO_COPY)
        return self._store.run(run.id)

    def _choose_ranks(self, run: Run, present: int, hosts: Sequence[str], fleet: FleetWish) -> int:
        """Return the number of ranks on which a run begins; 0 while it waits for others.

        Args:
            present: The ranks that there are.
            hosts: The host address of each of them; empty if unknown.
        """
        ranks = run.wish.options.ranks or present
        if run.fact.attempt == 1:
            return ranks
        found = self._store.events.newest(run.id, IteratorUndivided)
        undivided = found.kind if found else ""
        is_here = not fleet.place.has_nodes or not hosts
        is_asked = is_here or len({*hosts}) == fleet.nodes
        past = self._store.attempts.past(run.id)
        kept = kept_ranks(run.wish, past, present, undivided, is_asked=is_asked)
        if kept <= present:
            return kept or min(ranks, present)  # it continues on what is left
        message = why_it_keeps(kept, present, undivided)
        if message != run.fact.message:
            self._store.put_run_fact(run.id, message=message)
        return 0

    def _build_submit(
        self, run: Run, carrier: tuple[int, int], hosts: Sequence[str], fleet: FleetWish
    ) -> Callable[[], None]:
        """Return what submits a run to its ranks; the store is not needed for it any more.

        Args:
            carrier: The generation, and the number of ranks.
            hosts: The host address of each rank.
        """
        # It waits at the edge of its training, to continue a run that is active elsewhere.
        to_edge = any(one.run.id == run.wish.replays for one in self._runs.lives.values())
        past = self._store.attempts.past(run.wish.replays or run.id)
        has_snapshot = self._store.attempts.newest_snapshot(run.wish.replays or run.id) != NONE
        before = 0 if has_snapshot else max((one.ranks for one in past), default=0)
        assignment = build_assignment(
            run,
            data=self._data_place(run.wish.cluster, hosts, fleet),
            output=self._files.output_folder(run, hosts),
            snapshots=self._files.snapshot_folder(
                run, fleet, lambda one: to_edge or self._preparation.has_snapshot(one)
            ),
            has_snapshot=has_snapshot,
            past=past,
            to_edge=to_edge,
            early=early_environment(fleet, hosts, before),
            is_beside=carrier[0] in self._worlds.beside,
        )
        edge = self._preparation.waiting(run, carrier[0])
        return partial(self._send, *carrier, assignment, edge)

    def _end_waiting(self, waiting: Run, run: Run) -> None:
        """End what waits at the edge of a run's training: its ranks continue as the run's."""
        self._store.put_run_fact(
            waiting.id,
            state=RunState.FINISHED,
            ended=self._now().wall,
            message=f"Its ranks continued run {run.wish.name!r}.",
        )

    def _send(self, generation: int, ranks: int, assignment: Assignment, edge: str) -> None:
        """Let ranks begin a run, or continue it from its edge; those that have begun ignore it."""
        if edge:
            self._cluster.send(generation, range(ranks), ContinueAs(edge, assignment.execution))
        self._cluster.submit(generation, assignment)

    def _data_place(self, cluster: str, hosts: Sequence[str], fleet: FleetWish) -> str:
        sessions = [self._hosts.reach(Host(address, 1)) for address in hosts]
        beyond = next((session for session in sessions if session is not None), None)
        return data_place(cluster, fleet, beyond)


def build_assignment(
    run: Run,
    *,
    data: str,
    output: str,
    snapshots: str,
    has_snapshot: bool,
    past: Sequence[Attempt] = (),
    to_edge: bool = False,
    early: tuple[tuple[str, str], ...] = (),
    is_beside: bool = False,
) -> Assignment:
    """Return what the ranks get to execute a run.

    Args:
        data: The folder of the data on each rank.
        output: The folder for the run's output; empty for none.
        snapshots: The folder for its snapshots, likewise; of a run that is repeated for its own.
        has_snapshot: Whether the run has reported one, or the run that it repeats.
        past: The attempts of that run which have ended.
        to_edge: Whether its ranks wait at the edge of its training, to continue the run that it
            repeats.
        early: Environment variables of a run that begins while other nodes still boot.
        is_beside: Whether its ranks are beside those of other runs.
    """
    wish = run.wish
    return Assignment(
        wish,
        environment=(
            *wish.origin.environment,
            *torchelastic_environment(run),
            *early,
            *wish.options.environment,
        ),
        ranks=run.fact.ranks,
        directory=str(run_directory(wish.id)),
        master_port=_free_port(),
        data=data,
        output=output,
        attempt=run.fact.attempt,
        snapshots=snapshots,
        resume=run.fact.attempt > 1 or bool(wish.replays and snapshots),
        begins_again=(run.fact.attempt > 1 or to_edge) and not has_snapshot,
        insists=insists(past) and not (wish.replays or to_edge),
        losses=sum(was_lost(one) for one in past),
        lived=past[-1].ended - past[0].started if past and past[0].started else 0.0,
        continues=str(run_directory(wish.replays)) if to_edge else "",
        is_beside=is_beside,
    )


def _free_port() -> int:
    """Return a port of this machine that no program uses."""
    while True:
        port = random.SystemRandom().randrange(*PORT_RANGE)
        with contextlib.suppress(OSError), socket.socket() as probe:
            probe.bind(("", port))
            return port
