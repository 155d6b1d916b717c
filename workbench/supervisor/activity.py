"""One run that is on: take in what its ranks say, and carry out what is decided about it."""

from __future__ import annotations

import logging
import time
from dataclasses import replace
from typing import assert_never

from workbench.cluster.interface import Cluster
from workbench.core.generation import Death, WorldFact
from workbench.core.leaving import (
    Active,
    AskPulses,
    Cancel,
    Fail,
    Free,
    GiveUpWorld,
    RankStanding,
    Recover,
    Release,
    SendStop,
    Step,
    next_steps,
    waiting_message,
)
from workbench.core.report import AskPulse, Batch, Ending, Interrupt, Pulse, StopAt
from workbench.core.run import Run, RunState
from workbench.store import Store

log = logging.getLogger("workbench.supervisor")
BUSY_SECONDS = 3.0
PROGRESS_SECONDS = 0.2
LOST_VARIABLES = "The engines are started again; what cells left in their variables is lost."
FRESH_ENGINES = "Ran on fresh engines: what earlier cells left in their variables is lost."


class Activity:
    """A run on a generation, from its submission until its world can take the next one.

    Args:
        fresh: Whether its engines are others than those of the run before: variables that
            cells left are gone, which the reader shall know.
    """

    def __init__(
        self,
        run: Run,
        world: WorldFact,
        store: Store,
        cluster: Cluster,
        *,
        now: float,
        fresh: bool = False,
    ) -> None:
        self.run = run
        self.world = world
        self.over = False
        self.gave_up = ""
        self._store = store
        self._cluster = cluster
        size = run.wish.ranks or world.size
        endings = store.endings(run.id)
        standings = tuple(RankStanding(ending=endings.get(n)) for n in range(size))
        self._active = Active(run.id, standings, run.wish.grace, cluster.fault_tolerant)
        self._fact = run.fact
        self._kept = run.fact
        self._kept_at = 0.0
        self._submitted = now
        self._notice = FRESH_ENGINES if fresh else ""
        self._why_stopped = ""

    @property
    def told(self) -> bool:
        """Whether the reader knows how the run ended."""
        return self._fact.state.ended

    def hear(self, message: Batch | Pulse, now: float) -> None:
        """Take in what a rank says."""
        ranks = list(self._active.ranks)
        if message.rank >= len(ranks):
            return
        if isinstance(message, Pulse):
            ranks[message.rank] = replace(
                ranks[message.rank],
                begun=True,
                boundary=message.boundary,
                rate=message.rate,
                heard=now,
                call=message.call,
                waiting=message.seconds,
                where=message.where,
            )
        else:
            self._note_progress(message, now)
            ending = message.ending or ranks[message.rank].ending
            ranks[message.rank] = replace(ranks[message.rank], begun=True, ending=ending)
        self._active = replace(self._active, ranks=tuple(ranks))

    def wish_stop(self, now: float, why: str = "") -> None:
        """Begin to stop the run; asking again changes nothing.

        Args:
            why: One sentence, where it was not a person that wished so.
        """
        if not self._active.stop_wished:
            self._why_stopped = why
            self._active = replace(self._active, stop_wished=now)
            if not self.told:
                self._fact = replace(self._fact, state=RunState.STOPPING)

    def bury(self, deaths: tuple[Death, ...], reason: str, now: float) -> None:
        """Take in that the world is gone, with the ranks that died in it."""
        if not self.told:
            death = deaths[0] if deaths else None
            ending = self._own_ending(death.rank) if death else None
            if ending is not None and death is not None:
                # It said why before it died, as it does before MPI_Abort.
                self._tell_failure(death.rank, ending.error, ending.traceback, now)
            elif death is not None:
                self._tell_failure(death.rank, death.cause, death.trace, now)
            elif self._active.stop_wished:
                self._tell(RunState.STOPPED, self._stopped_text() + f" {LOST_VARIABLES}", now)
            else:
                self._tell(RunState.LOST, f"The world of this run ended: {reason}.", now)
            if death is not None:
                self._fact = replace(
                    self._fact, message=f"{self._fact.message} {LOST_VARIABLES}".strip()
                )
        self.over = True

    def advance(self, now: float) -> None:
        """Decide and act, then keep what changed."""
        if self._active.recovering:
            recovered = self._cluster.recovered(self.world.generation)
            self._active = replace(self._active, recovered=recovered)
        for step in next_steps(self._active, now):
            log.info("run %s: %s", self.run.id, step)
            self._carry_out(step, now)
        if not self.told:
            self._fact = replace(self._fact, message=self._waiting(now))

    def keep(self) -> None:
        """Write what changed of the run's fact; mere progress only now and then."""
        old, new = self._kept, self._fact
        moment = time.monotonic()
        early = new.state is old.state and not self.over
        if early and moment - self._kept_at < PROGRESS_SECONDS:
            return
        changes = {
            name: getattr(new, name)
            for name in new.__dataclass_fields__
            if getattr(new, name) != getattr(old, name)
        }
        if changes:
            self._store.put_run_fact(self.run.id, **changes)
            self._kept = new
            self._kept_at = moment

    # -- inside

    def _waiting(self, now: float) -> str:
        if self._fact.state is RunState.SUBMITTED and now - self._submitted > BUSY_SECONDS:
            return "The engines are busy, with a %%px cell or with imports; this run comes next."
        return waiting_message(self._active) or self._notice

    def _carry_out(self, step: Step, now: float) -> None:
        generation, active = self.world.generation, self._active
        match step:
            case AskPulses():
                self._active = replace(active, pulses_asked=now)
                self._cluster.send(generation, active.remaining, AskPulse(active.run))
            case SendStop(boundary):
                self._active = replace(active, stop_sent=now)
                self._cluster.send(generation, active.remaining, StopAt(active.run, boundary))
            case Free(ranks):
                self._active = replace(active, interrupted=now)
                self._cluster.send(generation, ranks, Interrupt(active.run))
            case Cancel():
                self._cluster.send(generation, active.remaining, Interrupt(active.run))
                self._tell(RunState.STOPPED, "Stopped before it began.", now)
                self.over = True
            case Fail(rank, error, traceback):
                self._active = replace(active, failed=now)
                self._tell_failure(rank, error, traceback, now)
            case Recover():
                self._active = replace(active, recovering=now)
                self._cluster.recover(generation)
            case GiveUpWorld(reason):
                self._give_up(reason, now)
            case Release():
                self._finish(now)
                self.over = True
            case _:
                assert_never(step)

    def _finish(self, now: float) -> None:
        if self.told:
            return
        stopped = any(rank.ending and rank.ending.state == "stopped" for rank in self._active.ranks)
        if stopped:
            self._tell(RunState.STOPPED, self._stopped_text(), now)
        else:
            self._tell(RunState.FINISHED, self._notice, now)

    def _give_up(self, reason: str, now: float) -> None:
        self.gave_up = reason
        if not self.told:
            self._tell(RunState.STOPPED, f"{self._stopped_text()} {LOST_VARIABLES}", now)
        else:
            text = f"{self._fact.message} {reason[0].upper()}{reason[1:]}. {LOST_VARIABLES}"
            self._fact = replace(self._fact, message=text.strip())
        self.over = True

    def _stopped_text(self) -> str:
        endings = [rank.ending for rank in self._active.ranks if rank.ending is not None]
        iteration = max([self._fact.iteration, *(e.iteration for e in endings)])
        return f"Stopped at iteration {iteration}. {self._why_stopped}".rstrip()

    def _tell_failure(self, rank: int, error: str, traceback: str, now: float) -> None:
        hosts = {fact.rank: fact.host for fact in self.world.ranks}
        host = hosts.get(rank, "an unknown host")
        text = f"Rank {rank} on {host} failed: {error.rstrip('.')}. {self._notice}"
        self._tell(RunState.FAILED, text.rstrip(), now)
        self._fact = replace(self._fact, failed_rank=rank, failed_host=host, error=traceback)

    def _tell(self, state: RunState, message: str, now: float) -> None:
        self._fact = replace(self._fact, state=state, message=message, ended=now)

    def _own_ending(self, rank: int) -> Ending | None:
        ending = self._active.ranks[rank].ending if rank < len(self._active.ranks) else None
        return ending if ending is not None and ending.state == "failed" else None

    def _note_progress(self, batch: Batch, now: float) -> None:
        if self.told:
            return
        fact = self._fact
        if fact.state is RunState.SUBMITTED:
            fact = replace(fact, state=RunState.RUNNING, started=now)
        if batch.progress is not None and batch.progress.iteration >= fact.iteration:
            fact = replace(
                fact,
                iteration=batch.progress.iteration,
                iterations_total=batch.progress.iterations_total,
                epoch=batch.progress.epoch,
                epochs_total=batch.progress.epochs_total,
            )
        self._fact = fact
