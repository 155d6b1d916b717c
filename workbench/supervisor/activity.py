"""One active run: receive the messages of its ranks, and act on what core decides."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import PurePath
from typing import assert_never

from workbench.cluster.interface import Cluster
from workbench.core.cluster.generation import Death, WorldFact
from workbench.core.cluster.resize_time import ResizeAt
from workbench.core.moment import Moment
from workbench.core.recovery.departure import (
    Departure,
    EpochPace,
    departure,
    lead_seconds,
    shortened_grace,
)
from workbench.core.recovery.progress import newest_snapshot, progressed
from workbench.core.recovery.resumption import (
    NONE,
    can_begin_again,
    can_move,
    follows,
    has_left,
    has_left_unasked,
    has_saved,
    is_at_fault,
    leaves,
    loss,
    remedy,
    stopped,
    why_continued,
    why_stopped,
)
from workbench.core.recovery.retries import is_failure, may_differ, retry, why_in_vain, why_no_retry
from workbench.core.run.hang import IMPORT, deserted, encoded, hang_of, stalled, suspected
from workbench.core.run.model import Run, RunKind, RunState
from workbench.core.run.rank_events import AtEdge
from workbench.core.run.rank_protocol import AskPulse, Batch, Ending, Interrupt, Pulse, StopAt
from workbench.core.run.termination import (
    Active,
    AskPulses,
    AwaitEnd,
    Cancel,
    Fail,
    Free,
    GiveUpWorld,
    RankStanding,
    Recover,
    ReleaseWorld,
    SendStop,
    Step,
    next_steps,
    ranks_text,
)
from workbench.core.supervisor import log_messages
from workbench.store import Store
from workbench.supervisor.run_report import RunReport

log = logging.getLogger("workbench.supervisor")
SUBMIT_SECONDS = 3.0  # engines that take longer to begin a run are busy
# A rank that has not begun by then may have been unreachable; each next wait is twice as long.
AGAIN_SECONDS = 5.0
IMPORT_SECONDS = 2.0  # a shorter import is over before it is read
# A rank's own report of its end and its engine's answer take different ways; the report is used.
LAST_WORD_SECONDS = 1.0
PULSE_SECONDS = 1.0


class Activity(RunReport):
    """A run on a generation, from its submission until its world can take the next one.

    Args:
        notice: What the message has to say of the ranks; empty for nothing.
        replaces: Whether a node that hangs can be replaced by another one.
        may_wait: Whether it is queued again if no rank begins it.
    """

    def __init__(
        self,
        run: Run,
        world: WorldFact,
        store: Store,
        cluster: Cluster,
        *,
        now: Moment,
        notice: str = "",
        replaces: bool = False,
        may_wait: bool = False,
    ) -> None:
        size = run.fact.ranks or run.wish.ranks or world.size  # it may continue on fewer
        super().__init__(run, world, store)
        self._of_ranks = notice
        self._notice = self._beginning(size)
        self.gave_up = ""
        self.silent: tuple[int, ...] = ()
        self._replaces = replaces
        self._may_wait = may_wait
        self.flaw = ""
        """Why its ranks can run no other cell, a clause; empty if they can."""
        self.is_deaf = False
        """Whether they were so before the run."""
        self._asked = 0.0  # when ranks that have not begun were last asked for a pulse
        self._cluster = cluster
        endings = store.endings(run.id)
        standings = tuple(RankStanding(ending=endings.get(n)) for n in range(size))
        self._active = Active(
            run.execution, standings, run.wish.grace, cluster.fault_tolerant,
            is_process=run.wish.is_process,
        )  # fmt: skip
        self._snapshot = store.newest_snapshot(run.id)
        self._is_moving = False
        self._pace = EpochPace()
        self._is_at_edge = store.event(run.id, AtEdge) is not None
        self._submitted = now.steady
        self._submit: Callable[[], None] | None = None
        self._again_seconds = AGAIN_SECONDS
        self._again = now.steady + AGAIN_SECONDS
        self._why_stopped = ""
        self._because = ""  # why the nodes go, if it leaves them for that
        self._retry_as = RunState.FAILED
        self._to_retry = ""  # what failed, if the run is tried again once its ranks have left
        self._import, self._import_since = "", 0.0
        self._failed_calls: dict[int, tuple[float, str]] = {}

    @property
    def is_movable(self) -> bool:
        """Whether the run can continue in another world; also while it leaves its own."""
        is_stopping = self._active.stop_wished and not self._is_moving
        is_ending = self.is_reported or is_stopping or self._active.failed
        return can_move(self.run.wish, self._snapshot) and not is_ending

    @property
    def is_moving(self) -> bool:
        """Whether it leaves its world, to continue in another one."""
        return self._is_moving

    @property
    def is_at_edge(self) -> bool:
        """Whether its ranks wait at the edge of a training, for the run that it repeats."""
        return self._is_at_edge and not self.is_reported

    @property
    def is_exiting(self) -> bool:
        """Whether its script has come to its end on all ranks, and these end by themselves."""
        return bool(self._active.leaving)

    def note_exits(self, deaths: Sequence[Death], now: Moment) -> None:
        """Let a script's ranks end by themselves if all that are gone have come to its end."""
        endings = self._store.endings(self.run.id)
        found = [endings.get(death.rank) for death in deaths]
        if found and all(one and one.state == "finished" for one in found):
            self._active = replace(self._active.with_endings(endings), leaving=now.steady)

    @property
    def is_calm(self) -> bool:
        """Whether all its ranks are in the run, and neither they nor it are about to end."""
        return self._active.are_in and not (self.over or self.is_reported or self._failed_calls)

    def is_unexplained(self, death: Death) -> bool:
        """Return whether neither the run's own code nor its user explains a rank's death.

        Ranks that have trained in it were fit for it.
        """
        own = self.run.wish.path or f"<cell of run {self.run.id}>"
        has_trained = self._fact.iteration > self.run.fact.iteration
        is_explained = death.is_abort or self._own_ending(death.rank) or own in death.trace
        return not (is_explained or has_trained)

    @property
    def has_failed(self) -> bool:
        """Whether it failed, or left ranks that can run no other cell."""
        return bool(self.flaw) or self._fact.state is RunState.FAILED

    @property
    def carrier(self) -> tuple[int, int]:
        """The generation of the run, and its number of ranks."""
        return self.world.generation, len(self._active.ranks)

    def refuse(self, why: str, now: Moment) -> None:
        """Fail the run because of invalid messages of its ranks, and end it there."""
        super().refuse(why, now)
        self._active = replace(self._active, failed=self._active.failed or now.steady)

    def hear(self, message: Batch | Pulse, now: Moment) -> None:
        """Process a message of a rank."""
        ranks = list(self._active.ranks)
        if message.rank >= len(ranks):
            return
        if isinstance(message, Pulse) and message.idle:
            ranks[message.rank] = ranks[message.rank].idle_at(now.steady)
        elif isinstance(message, Pulse):
            ranks[message.rank] = ranks[message.rank].after(message, now.steady)
        else:
            self._note_progress(message, now)
            ending = message.ending or ranks[message.rank].ending
            ranks[message.rank] = replace(ranks[message.rank], begun=True, ending=ending)
        self._active = replace(self._active, ranks=tuple(ranks))

    def begin(self, submit: Callable[[], None]) -> None:
        """Submit the run to its ranks.

        Args:
            submit: Asks all ranks to begin; those that have begun already ignore it.
        """
        self._submit = submit
        submit()

    def wish_stop(self, now: Moment, why: str = "") -> None:
        """Begin to stop the run; no effect if it is stopping already.

        Args:
            why: One sentence, if the stop was not requested by the user.
        """
        if not self._active.stop_wished or self._is_moving:
            self._why_stopped = why
            log.info("Stopping run %r%s", self.run.wish.name, log_messages.because(why))
            self._stop(now, self.run.wish.grace)

    def lead_seconds(self, copy: float) -> float:
        """Return how long before its nodes go the run is asked to stop; see ``departure``.

        Args:
            copy: Seconds that the copy of its last snapshot takes.
        """
        rate = min((rank.rate for rank in self._active.ranks), default=0.0)
        return lead_seconds(self.run.wish.grace, rate, copy)

    def wish_end(self, now: Moment, because: str, left: float, copy: float) -> None:
        """Stop the run because its nodes go; the ranks are interrupted in time for that.

        Args:
            because: Why they go, as a clause.
            left: Seconds until then.
            copy: Seconds that the copy of its last snapshot takes.
        """
        if not self._because and (not self._active.stop_wished or self._is_moving):
            log.info("Stopping run %r, because %s.", self.run.wish.name, because)
            self._because = because
            self._stop(now, shortened_grace(self.run.wish.grace, left, copy))

    def _stop(self, now: Moment, grace: float) -> None:
        self._is_moving = False
        if self._active.at_epoch:
            self._leave(now, grace)
        else:
            self._active = replace(self._active, stop_wished=now.steady, grace=grace)
        if not self.is_reported:
            self._fact = replace(self._fact, state=RunState.STOPPING)

    def departure(self, at: ResizeAt, now: Moment, *, is_reclaimed: bool) -> Departure:
        """Return what the run does about another size now; see ``core.recovery.departure``."""
        return departure(at, self._fact, self._pace, now.steady, is_reclaimed=is_reclaimed)

    def wish_move(
        self,
        now: Moment,
        left_nodes: str = "",
        at: ResizeAt = ResizeAt.STEP,
        because: str = "",
    ) -> None:
        """Let the run leave at a boundary, whenever that is, and continue elsewhere.

        Args:
            left_nodes: The nodes that it leaves because the provider takes them back.
            at: Which boundary: the next one, or the one that ends the epoch.
            because: Why it waits for other ranks after that, as a clause; empty if some follow.
        """
        at_epoch = at is ResizeAt.EPOCH and not left_nodes
        is_sooner = self._is_moving and self._active.at_epoch and not at_epoch
        if is_sooner or (self.is_movable and not self._is_moving):
            log.info("%s", log_messages.leaves(self.run.wish.name, because))
            self._is_moving, self._left_nodes, self._because = True, left_nodes, because
            self._notice = leaves(left_nodes, at_epoch=at_epoch, because=because)
            # A script that loads its own state need not come to a boundary.
            must_come = at_epoch or not self.run.wish.restarts
            self._leave(now, math.inf if must_come else self.run.wish.grace, at_epoch=at_epoch)

    def _leave(self, now: Moment, grace: float, *, at_epoch: bool = False) -> None:
        """Ask the ranks to leave; an earlier request to leave at an epoch's end holds too."""
        self._active = replace(
            self._active, stop_wished=now.steady, grace=grace, at_epoch=at_epoch,
            pulses_asked=0.0, stop_sent=0.0,
        )  # fmt: skip

    def fail_call(self, rank: int, error: str, now: Moment) -> None:
        """Record that an engine reports that its rank could not begin, or not end, the run."""
        self._failed_calls.setdefault(rank, (now.steady, error))

    def bury(
        self,
        deaths: tuple[Death, ...],
        reason: str,
        now: Moment,
        *,
        is_asked: bool = False,
        is_untouched: bool = False,
        is_lost: bool = False,
    ) -> None:
        """Record that the world has ended, with the ranks that died in it.

        Args:
            is_asked: Whether the supervisor ended it.
            is_untouched: Whether no rank can have begun the run.
            is_lost: Whether all processes of this machine were lost, so that the run did not fail.
        """
        if self.over:
            return  # it has given up this world
        if self.run.wish.is_process:
            self._active = self._active.with_endings(self._store.endings(self.run.id))
        has_begun = any(rank.begun for rank in self._active.ranks)
        if is_untouched and not has_begun and self._can_wait_again():
            self._wait_again()
        elif self._to_retry:
            self._continue(self._retry_as, self._to_retry, now)
        elif self._active.has_come_to_its_end and not self.is_reported:
            self._finish_exited(() if is_asked else deaths, now)
        elif not self.is_reported:
            death = deaths[0] if deaths else None
            has_failed = is_failure(deaths) and not is_lost
            is_blameless = not is_asked and self._is_blameless(deaths, has_failed=has_failed)
            trace, why = death.trace if death else "", ""
            if is_blameless and has_failed:
                why = self._why_no_retry(self._fact.iteration, trace)
                self._failed_at = self._fact.iteration
            elif is_blameless and not self.run.wish.restarts:
                past = self._store.attempts(self.run.id)
                why = why_in_vain(past, self._fact, self._snapshot)
            if is_blameless and not why:
                self._fact = replace(self._fact, error=trace, failure=death.cause if death else "")
                self._continue(RunState.LOST, loss(death, reason), now)
                return
            self._report_loss(death, reason, now)
            if self._fact.state is RunState.LOST or why or (death and death.is_lost):
                self._add(remedy(self.run, self._snapshot, why))
        self.over = True

    def advance(self, now: Moment) -> None:
        """Decide and act, then store what changed."""
        if self._active.recovering:
            recovered = self._cluster.recovered(self.world.generation)
            self._active = replace(self._active, recovered=recovered)
        self._end_where_calls_failed(now)
        self._submit_again(now)
        self._end_where_deaf(now)
        for step in () if self.over else next_steps(self._active, now.steady):
            log.debug("run %s: %s", self.run.id, step)
            self._carry_out(step, now)
        if not self.is_reported:
            self._fact = replace(self._fact, message=self._waiting(now))
            self._look_for_hang(now)
            self._end_deserted(now)
        if self.is_movable and (cause := stalled(self._active, now.steady)):
            self._leave_stalled(cause, now)

    # -- inside

    def _waiting(self, now: Moment) -> str:
        if self._fact.state is RunState.SUBMITTED and now.steady - self._submitted > SUBMIT_SECONDS:
            return "The engines are busy, with a %%px cell or with imports; this run comes next."
        if self._is_moving:
            return self._notice
        return self._passing or self._notice or self._importing(now)

    def _importing(self, now: Moment) -> str:
        """Return what rank 0 has imported for a while, before anything else is seen of the run."""
        doing = self._active.ranks[0].doing
        if self._fact.iteration or not doing.startswith(IMPORT):
            doing = ""
        if doing != self._import:
            self._import, self._import_since = doing, now.steady
        if not doing or now.steady - self._import_since < IMPORT_SECONDS:
            return ""
        return f"The ranks {doing}."

    def _look_for_hang(self, now: Moment) -> None:
        """Note which rank waits for which, until the ranks are interrupted."""
        if self._active.interrupted or self.run.wish.kind is RunKind.MEASUREMENT:
            return  # while pairs are measured, the other ranks wait as planned
        self._fact = replace(self._fact, hang=encoded(hang_of(self._active, now.steady)))

    def _end_deserted(self, now: Moment) -> None:
        """Fail the run where all its ranks that are left wait for others that have ended."""
        active, wish = self._active, self.run.wish
        if active.stop_wished or active.failed or wish.kind is RunKind.MEASUREMENT:
            return
        source = PurePath(wish.path).name if wish.kind is RunKind.SCRIPT else "the cell"
        if why := deserted(active, now.steady, source):
            self._fact = replace(self._fact, hang="")  # the message says it
            self._report(RunState.FAILED, why, now)
            self._active = replace(active, failed=now.steady)

    def _leave_stalled(self, cause: str, now: Moment) -> None:
        """Give up ranks that wait for each other for good; the run is tried again on others.

        A node that does not answer is left for another one. That is no failure of the run if it has
        got on since it began there; else the program may be what keeps its node from answering.
        """
        hosts = [rank.host for rank in sorted(self.world.ranks, key=lambda rank: rank.rank)]
        suspicion = suspected(self._active, hosts, now.steady) if self._replaces else None
        if suspicion is not None:
            self.silent, cause = suspicion.ranks, suspicion.cause
        fact = self._fact
        has_got_on = has_saved(fact.attempt, fact.resumed_at, self._snapshot)
        if suspicion is not None and has_got_on:
            self._to_retry, self._retry_as = cause, RunState.LOST
        elif why := self._why_no_retry(self._fact.iteration, ""):
            self._report(RunState.FAILED, f"{cause}.", now)
            self._add(remedy(self.run, self._snapshot, why))
        else:
            self._to_retry, self._failed_at = cause, self._fact.iteration
        self._give_up("its ranks waited for each other", now)

    def _carry_out(self, step: Step, now: Moment) -> None:
        generation, active = self.world.generation, self._active
        match step:
            case AskPulses():
                self._active = replace(active, pulses_asked=now.steady)
                self._cluster.send(generation, active.remaining, AskPulse(active.run))
            case SendStop(boundary, epoch):
                self._active = replace(active, stop_sent=now.steady)
                stop = StopAt(active.run, boundary, epoch)
                self._cluster.send(generation, active.remaining, stop)
            case Free(ranks):
                self._active = replace(active, interrupted=now.steady)
                self._cluster.send(generation, ranks, Interrupt(active.run))
            case Cancel():
                self._cluster.send(generation, active.remaining, Interrupt(active.run))
                if self._is_moving:
                    self._report_stop(now)
                else:
                    self._report(RunState.STOPPED, "Stopped before it began.", now)
                self.over = True
            case Fail():
                self._active = replace(active, failed=now.steady)
                self._fail(step, now)
            case Recover():
                self._active = replace(active, recovering=now.steady)
                self._cluster.recover(generation)
            case AwaitEnd():
                self._active = replace(active, leaving=now.steady)
            case GiveUpWorld(reason):
                self._give_up(reason, now)
            case ReleaseWorld():
                self._finish(now)
                self._end_spoiled()
                self.over = True
            case _:
                assert_never(step)

    def _fail(self, failure: Fail, now: Moment) -> None:
        """Report that a rank has failed, or let the run be tried again from its snapshot."""
        if self._is_interrupted_to_move:
            return
        run, ending = self.run, self._active.ranks[failure.rank].ending
        self._snapshot = self._store.newest_snapshot(run.id)
        is_stopping = self._active.stop_wished and not self._is_moving
        may_retry = can_move(run.wish, self._snapshot) and not is_stopping
        if ending is None or not (may_retry and may_differ(run.wish.kind, ending)):
            self._report_failure(failure.rank, failure.error, failure.traceback, now, failure.whole)
        elif why := self._why_no_retry(ending.iteration, failure.traceback):
            self._report_failure(failure.rank, failure.error, failure.traceback, now, failure.whole)
            self._add(remedy(run, self._snapshot, why))
        else:
            self._to_retry = self._failure_of(failure.rank, failure.error)
            self._failed_at = ending.iteration
            self._fact = replace(
                self._fact,
                iteration=self._furthest(),
                failure=failure.error.rstrip("."),
                error=failure.traceback,
            )

    @property
    def _is_interrupted_to_move(self) -> bool:
        """Whether it starts again elsewhere, however its script answers the interrupt."""
        return self._is_moving and self.run.wish.restarts and bool(self._active.interrupted)

    def _why_no_retry(self, iteration: int, traceback: str) -> str:
        past = self._store.attempts(self.run.id)
        return why_no_retry(self.run.wish.retries, past, iteration, traceback)

    def _submit_again(self, now: Moment) -> None:
        """Submit the run again to ranks that have not begun: they may have reconnected just now.

        The controller drops requests to an engine that is not connected, without an error.
        """
        is_over = self.over or self.is_reported or self._active.stop_wished or self._active.failed
        if self._submit is None or is_over or now.steady < self._again:
            return
        if any(not rank.begun for rank in self._active.ranks):
            log.debug("run %s is submitted again", self.run.id)
            self._submit()
        self._again_seconds *= 2
        self._again = now.steady + self._again_seconds

    def _end_where_calls_failed(self, now: Moment) -> None:
        """End the run and its world because of a rank that will send nothing else."""
        for rank, (since, error) in self._failed_calls.items():
            standing = self._active.ranks[rank]
            if standing.ending or standing.left or now.steady - since < LAST_WORD_SECONDS:
                continue
            if not self.is_reported:
                self._report_failure(rank, error, "", now)
            self._give_up(f"rank {rank} can run no other cell", now)
            return

    def _end_where_deaf(self, now: Moment) -> None:
        """End the world if a rank begins no run; the run waits for the next if none has begun."""
        if self.over or self.is_reported or self._submit is None or self._active.stop_wished:
            return
        waiting = tuple(n for n, rank in enumerate(self._active.ranks) if not rank.begun)
        is_late = now.steady - self._submitted > SUBMIT_SECONDS
        if waiting and is_late and now.steady - self._asked >= PULSE_SECONDS:
            self._asked = now.steady
            self._cluster.send(self.world.generation, waiting, AskPulse(self._active.run))
        if not (deaf := self._active.deaf(now.steady)):
            return
        self.flaw, self.is_deaf = f"{ranks_text(deaf)} accepted no cell", True
        self._cluster.send(self.world.generation, waiting, Interrupt(self._active.run))
        if not any(rank.begun for rank in self._active.ranks) and self._can_wait_again():
            self.gave_up = self.flaw
            self._wait_again()
            return
        self._report_failure(deaf[0], "it accepted no cell, although it executed none", "", now)
        self.gave_up, self.over = self.flaw, True

    def _end_spoiled(self) -> None:
        """End the world if the run has left a rank that can run no other one."""
        endings = enumerate(rank.ending for rank in self._active.ranks)
        flaws = [(n, end.spoiled) for n, end in endings if end is not None and end.spoiled]
        if not flaws:
            return
        rank, flaw = flaws[0]
        self.gave_up = self.flaw = f"rank {rank} can run no other cell: {flaw}"
        if self.is_reported:
            self._add(
                f"After this run {self.flaw}. The ranks are replaced, and run "
                f"{self.run.wish.name!r} is not repeated on the new ones."
            )

    def _can_wait_again(self) -> bool:
        is_first = self._may_wait and self.run.fact.attempt == 1
        return is_first and not (self.is_reported or self._active.stop_wished)

    def _wait_again(self) -> None:
        """Queue the run, which no rank has begun, for the next world."""
        self._fact = replace(self._kept, state=RunState.QUEUED, generation=0, ranks=0, message="")
        self.waits_again = self.over = True
        log.info("Run %r had not begun, and waits for other ranks.", self.run.wish.name)

    def _finish(self, now: Moment) -> None:
        if self.is_reported:
            return
        if self._to_retry:
            self._continue(self._retry_as, self._to_retry, now)
            return
        endings = [rank.ending for rank in self._active.ranks if rank.ending is not None]
        # A supervisor that stored the endings may have ended before it stored the progress.
        self._fact = replace(self._fact, iteration=self._furthest())
        if self._is_interrupted_to_move or any(one.state != "finished" for one in endings):
            unasked = has_left_unasked(endings, self._active.stop_wished)
            self._is_moving |= self.is_movable and unasked
            self._report_stop(now)
        else:
            self._report(RunState.FINISHED, self._notice, now)

    def _give_up(self, reason: str, now: Moment) -> None:
        self.gave_up = reason
        if self._to_retry:
            self._continue(self._retry_as, self._to_retry, now)
        elif not self.is_reported and self.run.wish.is_process and not self._active.remaining:
            self._finish(now)
        elif not self.is_reported:
            self._report_stop(now, self._lost)
        elif self._lost:
            self._add(f"{reason[0].upper()}{reason[1:]}. {self._lost}")
        self.over = True

    def _finish_exited(self, deaths: tuple[Death, ...], now: Moment) -> None:
        """Report how a script ended whose processes are gone."""
        crash = next((death for death in deaths if not death.is_plain), None)
        if crash is None:
            self._finish(now)
        else:
            error = f"{crash.cause}, while its process exited after the end of the script"
            self._report_failure(crash.rank, error, crash.report, now)

    def _report_stop(self, now: Moment, lost: str = "") -> None:
        if self._is_moving:
            left = has_left(len(self._active.ranks), self._left_nodes, self._because)
            self._continue(RunState.STOPPED, left, now)
            return
        iteration, snapshot = self._furthest(), self._store.newest_snapshot(self.run.id)
        message = stopped(self.run, iteration, snapshot, self._because)
        self._report(RunState.STOPPED, message, now)
        self._fact = replace(self._fact, stopped_at=iteration, remark=why_stopped(message))
        if not self._because:  # the ranks are not started again
            self._add(f"{self._why_stopped} {lost}")

    def _furthest(self) -> int:
        endings = (rank.ending.iteration for rank in self._active.ranks if rank.ending)
        return max(self._fact.iteration, *endings, 0)

    def _report_loss(self, death: Death | None, reason: str, now: Moment) -> None:
        ending = self._own_ending(death.rank) if death else None
        if ending is not None and death is not None:
            # It reported its error before it died, as it does before MPI_Abort.
            self._report_failure(death.rank, ending.error, ending.traceback, now, ending.whole)
        elif death is not None:
            self._report_failure(death.rank, death.cause, death.report, now)
        elif self._active.stop_wished and not self._is_moving:
            self._report_stop(now, self._lost)
        else:
            self._report(RunState.LOST, f"The world of this run ended: {reason}.", now)
        if death is not None:
            self._add(self._lost)

    def _is_blameless(self, deaths: tuple[Death, ...], *, has_failed: bool) -> bool:
        """Return whether the run can continue, and neither it nor its user ended the world."""
        endings = {n: rank.ending for n, rank in enumerate(self._active.ranks) if rank.ending}
        # What the ranks could no longer send has been read from their logs meanwhile.
        endings |= self._store.endings(self.run.id)
        self._snapshot = self._store.newest_snapshot(self.run.id)
        has_raised = any(e.state == "failed" and not e.secondary for e in endings.values())
        is_stopping = self._active.stop_wished and not self._is_moving
        may_continue = can_move(self.run.wish, self._snapshot) or can_begin_again(
            self.run.wish,
            self._store.attempts(self.run.id),
            has_begun=self._store.has_begun(self.run.id),
            iteration=self._furthest(),
            is_failure=has_failed,
        )
        return may_continue and not (has_raised or is_stopping or is_at_fault(deaths))

    def _continue(self, state: RunState, cause: str, now: Moment) -> None:
        """End this attempt; its successor is queued by ``keep``.

        Args:
            state: How the attempt ended.
            cause: Why it ended, the beginning of a sentence.
        """
        self._snapshot = self._store.newest_snapshot(self.run.id)
        self._fact = replace(self._fact, iteration=self._furthest())
        again = ""
        if self._failed_at != NONE:
            again = f" {retry(self._store.attempts(self.run.id), self.run.wish.retries)}"
        self._next = replace(self._fact, state=state, ended=now.wall, message=f"{cause}.{again}")
        self._message = f"{cause}; {follows(self.run.wish, self._snapshot)}.{again}"
        self.over = True
        log.info("Run %r: %s", self.run.wish.name, self._message)

    def _beginning(self, ranks: int) -> str:
        """Return why this attempt was begun, from where, and what else is said of its ranks."""
        past = self._store.attempts(self.run.id)
        redone = self._store.redone_seconds(self.run.id) if past else {}
        continued = why_continued(
            past,
            ranks,
            restarts=self.run.wish.restarts,
            resumed_at=self._fact.resumed_at,
            redone=redone,
        )
        return " ".join(filter(None, (continued, self._of_ranks)))

    def _own_ending(self, rank: int) -> Ending | None:
        ending = self._active.ranks[rank].ending if rank < len(self._active.ranks) else None
        return ending if ending is not None and ending.state == "failed" else None

    def _note_progress(self, batch: Batch, now: Moment) -> None:
        if not self.is_reported:
            self._is_at_edge |= batch.event(AtEdge) is not None
            self._snapshot = newest_snapshot(batch, self._snapshot)
            resumed, self._fact = self._fact.resumed, progressed(self._fact, batch, now.wall)
            if self._fact.resumed != resumed:  # only now it is known what is done again
                self._notice = self._beginning(len(self._active.ranks))
            self._pace = self._pace.at(self._fact.epoch, now.steady)
