"""How one run's state and end are put into words and stored."""

from __future__ import annotations

import contextlib
import logging
import time
from collections.abc import Iterator
from dataclasses import replace

from workbench.core.cluster.generation import WorldFact
from workbench.core.moment import Moment
from workbench.core.recovery.replay import culprit
from workbench.core.recovery.resumption import NONE
from workbench.core.run.hang import decoded
from workbench.core.run.model import Run, RunFact, RunState
from workbench.core.supervisor import log_messages
from workbench.errors import DataRefused, Unknown, WorkbenchError
from workbench.store import Store

log = logging.getLogger("workbench.supervisor")
PROGRESS_SECONDS = 0.2
LOST_VARIABLES = "The ranks are restarted; earlier cells are repeated there when a run needs them."


class RunReport:
    """The observed state of a run on a generation, as it is kept in the store."""

    def __init__(self, run: Run, world: WorldFact, store: Store) -> None:
        self.run = run
        self.world = world
        self.over = False
        self.waits_again = False
        """Whether it is queued again, for no rank has begun it."""
        self.culprit = ""
        """The earlier run whose code ended a rank; empty if none did."""
        self._store = store
        self._notice = ""  # what the message has to say of the ranks
        self._passing = ""
        self._fact = run.fact
        self._kept = run.fact
        self._kept_at = 0.0
        self._next: RunFact | None = None  # this attempt as it ended, if another one follows
        self._message = ""
        self._failed_at = NONE  # the iterations that a rank had done whose failure counts
        self._left_nodes = ""

    @property
    def fact(self) -> RunFact:
        """The observed state of the run, which may not be stored yet."""
        return self._fact

    @property
    def is_reported(self) -> bool:
        """Whether the store has a message on how the run ended."""
        return self._fact.state.ended

    @property
    def continues(self) -> bool:
        """Whether it is queued without a request of the user, as its next attempt or again."""
        return self._next is not None or self.waits_again

    @contextlib.contextmanager
    def guarded(self, now: Moment) -> Iterator[None]:
        """Fail this run alone if the body raises; errors of the store are raised."""
        try:
            yield
        except DataRefused as error:
            self.refuse(str(error), now)
        except WorkbenchError:
            raise
        except Exception as error:  # invalid data of one run must not end the supervisor
            log.exception("Run %r failed.", self.run.wish.name)
            self.refuse(f"The messages of its ranks cannot be processed ({error!r:.200}).", now)

    def refuse(self, why: str, now: Moment) -> None:
        """Fail the run because of invalid messages of its ranks.

        Args:
            why: One sentence.
        """
        log.warning("%s", log_messages.run_ended(self.run.wish.name, RunState.FAILED, why))
        if not self.is_reported:  # messages that the store did not take are dropped
            self._fact = replace(self._kept, state=RunState.FAILED, message=why, ended=now.wall)
        else:
            self._fact = replace(
                self._kept, state=self._fact.state, ended=now.wall, message=self._fact.message
            )

    def hinder(self, why: str) -> None:
        """Record why the run could not leave its ranks now, for who thinks of a resize."""
        if why != self._fact.hindrance and not self.is_reported:
            self._fact = replace(self._fact, hindrance=why)

    def note(self, remark: str) -> None:
        """Show a remark while the run lasts."""
        self._passing = remark

    def remark(self, sentence: str) -> None:
        """Add a sentence to the message of the run, whose end is reported."""
        self._add(sentence)

    def keep(self) -> None:
        """Write the changes of the run's fact; mere progress only once in a while."""
        if self._next is not None:
            self._store.continue_run(
                self._next, self._message, self._left_nodes, failed_at=self._failed_at
            )
            return
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
        if new.state.ended and not old.state.ended:
            self._conclude()
        if changes:
            self._store.put_run_fact(self.run.id, **changes)
            self._kept = new
            self._kept_at = moment

    # -- inside

    @property
    def _lost(self) -> str:
        """What is lost with the ranks, one sentence; empty for nothing."""
        return "" if self.run.wish.is_process else LOST_VARIABLES

    def _conclude(self) -> None:
        """Store the run's conclusion before any view sees that the run has ended."""
        from workbench.analysis.conclusion import concluded  # slow to load, and not needed at start

        try:
            concluded(self._store, Run(self.run.wish, self._fact))
        except Exception:  # the first view computes it then; the run must not fail for that
            log.exception("run %s: no conclusion", self.run.id)

    def _report_failure(
        self, rank: int, error: str, traceback: str, now: Moment, whole: str = ""
    ) -> None:
        host, failure = self._host(rank), error.rstrip(".")
        self._report(RunState.FAILED, f"{self._failure_of(rank, error)}.", now)
        self._fact = replace(
            self._fact,
            failed_rank=rank,
            failed_host=host,
            error=traceback,
            failure=failure,
            traceback=whole,
        )
        if earlier := culprit(traceback, self.run.id):
            self.culprit = earlier
            with contextlib.suppress(Unknown):
                self._add(f"Code of run {self._store.run(earlier).wish.name!r} did that.")
        self._add(self._notice)

    def _failure_of(self, rank: int, error: str) -> str:
        """Return that a rank has failed, without the period."""
        return f"Rank {rank} on {self._host(rank)} failed: {error.rstrip('.')}"

    def _host(self, rank: int) -> str:
        hosts = {fact.rank: fact.host for fact in self.world.ranks}
        return hosts.get(rank, "an unknown host")

    def _report(self, state: RunState, message: str, now: Moment) -> None:
        hang = decoded(self._fact.hang)
        kept = self._fact.hang if hang and hang.sure and state is not RunState.FINISHED else ""
        self._fact = replace(self._fact, state=state, message=message, ended=now.wall, hang=kept)
        log.info("%s", log_messages.run_ended(self.run.wish.name, state, message))

    def _add(self, remark: str) -> None:
        """Add a remark to the message of a run whose end is stored."""
        if remark := remark.strip():
            fact = self._fact
            message, before = f"{fact.message} {remark}", f"{fact.remark} {remark}"
            self._fact = replace(fact, message=message.strip(), remark=before.strip())
