"""Begin runs on the ranks of a world, or end them before they have begun."""

from __future__ import annotations

import contextlib
import logging
import random
import socket
from collections.abc import Callable, Sequence
from functools import partial

from workbench.cluster.interface import Cluster
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
from workbench.supervisor.data.run_files import RunFiles
from workbench.supervisor.data.staging import data_place
from workbench.supervisor.hosts import ClusterHosts
from workbench.supervisor.preparation import Preparation

log = logging.getLogger("workbench.supervisor")


class RunStart:
    """Begins the runs of one cluster."""

    def __init__(
        self,
        store: Store,
        cluster: Cluster,
        cluster_hosts: ClusterHosts,
        files: RunFiles,
        preparation: Preparation,
        now: Callable[[], Moment],
    ) -> None:
        self._store, self._cluster, self._now = store, cluster, now
        self._hosts, self._files, self._preparation = cluster_hosts, files, preparation

    def check_begin(self, run: Run) -> Run:
        """Return a run that can begin; it begins again if no copy of its snapshots is left."""
        if not self._files.has_lost_all(run):
            return run
        self._store.attempts.forget_snapshots(run.id, NO_COPY)
        return self._store.run(run.id)

    def ranks(self, run: Run, present: int, hosts: Sequence[str], fleet: FleetWish) -> int:
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

    def build_submit(
        self, run: Run, carrier: tuple[int, int], hosts: Sequence[str], fleet: FleetWish,
        *, to_edge: bool,
    ) -> Callable[[], None]:  # fmt: skip
        """Return what submits a run to its ranks; the store is not needed for it any more.

        Args:
            carrier: The generation, and the number of ranks.
            hosts: The host address of each rank.
            to_edge: Whether it waits at the edge of its training, to continue another run.
        """
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
        )
        edge = self._preparation.waiting(run, carrier[0])
        return partial(self._send, *carrier, assignment, edge)

    def end_waiting(self, waiting: Run, run: Run) -> None:
        """End what waits at the edge of a run's training: its ranks continue as the run's."""
        self._store.put_run_fact(
            waiting.id,
            state=RunState.FINISHED,
            ended=self._now().wall,
            message=f"Its ranks continued run {run.wish.name!r}.",
        )

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
    )


def _free_port() -> int:
    """Return a port of this machine that no program uses."""
    while True:
        port = random.SystemRandom().randrange(*PORT_RANGE)
        with contextlib.suppress(OSError), socket.socket() as probe:
            probe.bind(("", port))
            return port
