"""Carry one run on its world: turn what is observed into events, and perform what follows."""

from __future__ import annotations

import contextlib
import logging
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import assert_never

from workbench.cluster.interface import Cluster
from workbench.core.cluster.generation import Death, WorldFact
from workbench.core.moment import Moment
from workbench.core.recovery.life import (
    Heard,
    Life,
    LifeAction,
    LifeEvent,
    MeasureRedone,
    MessagesRefused,
    Moving,
    NameCulprit,
    RanksGone,
    Recovering,
    RecoverRanks,
    RedoneMeasured,
    RemarkAdded,
    RunContinues,
    RunOutcome,
    SendRanks,
    Stopping,
    StoredRun,
    SubmitAgain,
    TimePassed,
    WorldEnded,
    advance,
    begin_life,
)
from workbench.core.run.model import Run, RunState
from workbench.core.run.rank_protocol import AtEdge, Batch, Pulse
from workbench.core.supervisor import log_messages
from workbench.errors import DataRefused, StoreUnavailable, Unknown, WorkbenchError
from workbench.store import Store

log = logging.getLogger("workbench.supervisor")
PROGRESS_SECONDS = 0.2


class Activity:
    """A run on a generation, from its submission until its world can take the next one.

    Args:
        notice: What the message has to say of the ranks; empty for nothing.
        replaces: Whether a node that hangs can be replaced by another one.
        may_wait: Whether it is queued again if no rank begins it.

    Attributes:
        began: When it was submitted to these ranks, or taken over, by the steady clock.
        trained: When its first step there was reported; infinite before.
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
        self._run, self._store, self._cluster = run, store, cluster
        self._submit: Callable[[], None] = lambda: None
        self._due: list[LifeAction] = []  # while the store is away
        self._kept, self._kept_at = run.fact, -math.inf
        self.began, self.trained = now.steady, math.inf
        past, tolerant = tuple(store.attempts.past(run.id)), cluster.fault_tolerant
        self.life: Life = replace(
            begin_life(run, world, self._read_stored(), now, fault_tolerant=tolerant),
            past=past,
            redone=store.attempts.redone_seconds(run.id) if past else {},
            of_ranks=notice,
            replaces=replaces,
            may_wait=may_wait,
            has_reached_edge=store.events.newest(run.id, AtEdge) is not None,
        )

    def __repr__(self) -> str:
        return f"<Activity {self.life!r}>"

    def begin(self, submit: Callable[[], None]) -> None:
        """Submit the run to its ranks.

        Args:
            submit: Asks all ranks to begin; those that have begun already ignore it.
        """
        self._submit = submit
        submit()

    # -- events

    def take(self, event: LifeEvent) -> None:
        """Let an event happen, and perform what follows from it."""
        before = self.life
        self.life, actions = advance(before, event)
        self._log_change(before)
        self._perform_all(actions)

    def hear(self, message: Batch | Pulse, now: Moment) -> None:
        """Process a message of a rank."""
        self.take(Heard(message, now))
        if math.isinf(self.trained) and self.life.fact.iteration > self._run.fact.iteration:
            self.trained = now.steady

    def turn(self, now: Moment) -> None:
        """Let time pass."""
        recovered = None
        if isinstance(self.life.state, Recovering):
            recovered = self._cluster.recovered(self.life.world.generation)
        self.take(TimePassed(now, recovered))

    def lose_processes(self, deaths: tuple[Death, ...]) -> None:
        """Note which processes of a script have ended while others of its world are up."""
        self.take(RanksGone(deaths, self._read_stored()))

    def lose_world(
        self,
        deaths: tuple[Death, ...],
        reason: str,
        now: Moment,
        *,
        is_asked: bool = False,
        is_untouched: bool = False,
        is_lost: bool = False,
    ) -> None:
        """Note that the world has ended; see ``WorldEnded``."""
        stored = self._read_stored()
        self.take(WorldEnded(deaths, reason, stored, now, is_asked, is_untouched, is_lost))

    @contextlib.contextmanager
    def guard(self, now: Moment) -> Iterator[None]:
        """Fail this run alone if the body raises; errors of the store are raised."""
        try:
            yield
        except DataRefused as error:
            self.refuse(str(error), now)
        except WorkbenchError:
            raise
        except Exception as error:  # invalid data of one run must not end the supervisor
            log.exception("Run %r failed.", self._run.wish.name)
            self.refuse(f"The messages of its ranks cannot be processed ({error!r:.200}).", now)

    def refuse(self, why: str, now: Moment) -> None:
        """Fail the run because of invalid messages of its ranks.

        Args:
            why: One sentence.
        """
        log.warning("%s", log_messages.run_ended(self._run.wish.name, RunState.FAILED, why))
        self.take(MessagesRefused(why, self._kept, now))

    # -- the store

    def keep(self, now: Moment) -> None:
        """Write the changes of the run's fact; mere progress only once in a while."""
        self._perform_all(())
        over = self.life.over
        if over is not None and isinstance(over.outcome, RunContinues):
            one = over.outcome
            self._store.attempts.continue_run(
                one.past, one.message, one.left_nodes, failed_at=one.failed_at
            )
            return
        old, new = self._kept, self.life.fact
        early = new.state is old.state and over is None
        if early and now.steady - self._kept_at < PROGRESS_SECONDS:
            return
        changes = {
            name: getattr(new, name)
            for name in new.__dataclass_fields__
            if getattr(new, name) != getattr(old, name)
        }
        if new.state.ended and not old.state.ended:
            self._conclude()
        if changes:
            self._store.put_run_fact(self._run.id, **changes)
            self._kept, self._kept_at = new, now.steady

    def _read_stored(self) -> StoredRun:
        run = self._run.id
        return StoredRun(
            self._store.reports.endings(run),
            self._store.attempts.newest_snapshot(run),
            self._store.attempts.has_begun(run),
        )

    def _conclude(self) -> None:
        """Store the run's conclusion before any view sees that the run has ended."""
        from workbench.analysis.conclusion import (
            ensure_conclusion,  # slow to load, and not needed at start
        )

        try:
            ensure_conclusion(self._store, Run(self._run.wish, self.life.fact))
        except Exception:  # the first view computes it then; the run must not fail for that
            log.exception("run %s: no conclusion", self._run.id)

    # -- actions

    def _perform_all(self, actions: Sequence[LifeAction]) -> None:
        """Perform actions; one for which the store is away is repeated after the next event."""
        due, self._due = [*self._due, *actions], []
        for action in due:
            try:
                self._perform(action)
            except StoreUnavailable:
                self._due.append(action)

    def _perform(self, action: LifeAction) -> None:
        log.debug("run %s: %s", self._run.id, action)
        generation = self.life.world.generation
        match action:
            case SendRanks(ranks, command):
                self._cluster.send(generation, ranks, command)
            case SubmitAgain():
                self._submit()
            case RecoverRanks():
                self._cluster.recover(generation)
            case MeasureRedone():
                self.take(RedoneMeasured(self._store.attempts.redone_seconds(self._run.id)))
            case NameCulprit(run):
                with contextlib.suppress(Unknown):
                    name = self._store.run(run).wish.name
                    self.take(RemarkAdded(f"Code of run {name!r} ended the rank."))
            case _:
                assert_never(action)

    def _log_change(self, before: Life) -> None:
        """Log what a person may want to know of an event."""
        name, life = self._run.wish.name, self.life
        if type(life.state) is not type(before.state):
            match life.state:
                case Moving(because=because):
                    log.info("%s", log_messages.leaves(name, because))
                case Stopping(why=why, because=because):
                    reason = f", because {because}." if because else log_messages.because(why)
                    log.info("Stopping run %r%s", name, reason)
        if life.over is not None and before.over is None:
            match life.over.outcome:
                case RunContinues(message=message):
                    log.info("Run %r: %s", name, message)
                case RunOutcome.WAITS:
                    log.info("Run %r had not begun, and waits for other ranks.", name)
        if life.is_reported and not before.is_reported:
            log.info("%s", log_messages.run_ended(name, life.fact.state, life.fact.message))


class ActiveRuns:
    """The runs of a cluster that are on ranks, and those that wait.

    Attributes:
        on: Those that are on ranks, by generation.
        queue: Those that wait, the next one first.
    """

    def __init__(self) -> None:
        self.on: dict[int, Activity] = {}
        self.queue: list[Run] = []
        self._begin_seconds: dict[str, float] = {}

    def __repr__(self) -> str:
        return f"<ActiveRuns: {len(self.on)} on ranks, {len(self.queue)} wait>"

    def find(self, execution: str) -> Activity | None:
        """Return the run that is active with this execution; None if there is none."""
        found = (one for one in self.on.values() if one.life.run.execution == execution)
        return next(found, None)

    def begin_seconds(self) -> float:
        """Return how long the active runs took at most until their first step; infinite if unknown.

        An attempt that waited at its edge for the one before was short, so the longest counts.
        """
        known = self._begin_seconds
        for one in self.on.values():
            run, took = one.life.run, one.trained - one.began
            if run.fact.state is RunState.SUBMITTED and math.isfinite(took):
                known[run.id] = max(known.get(run.id, 0.0), took)
        took_all = [known.get(one.life.run.id, math.inf) for one in self.on.values()]
        return max(took_all, default=0.0)

    @property
    def lives(self) -> dict[int, Life]:
        """The runs that are active as values, by the generation that each is on."""
        return {generation: one.life for generation, one in self.on.items()}
