"""One attempt of a run on the ranks of a world, as a value: what happens to it, and what follows.

``advance(life, event)`` returns the life after an event, and what the supervisor has to do. It asks
no clock, no store and no rank: what was seen is in the event. So the same question has the same
answer, and a history of events is a test. The supervisor turns what it observes into events,
performs the actions, and stores ``life.fact``; it decides nothing.

A life is in one of eight states, each with its own data::

                     all ranks have begun
      Beginning ─────────────────────────────▶ Running
       │    │                                   │ │ │
       │    │ MoveAsked: another size, or       │ │ │
       │    ├──────────────────────▶ Moving ◀───┘ │ │   the provider takes a node back
       │    │                         │  │        │ │
       │    │ StopAsked, EndAsked:    ▼  │        │ │
       │    ├──────────────────▶ Stopping ◀───────┘ │   a stop wins over a move
       │    │                         │  │          │
       │    │ a rank fails, Refused:  ▼  ▼          │
       │    └──────────────────────▶ Failing ◀──────┘
       │                              │
       │        all ranks have left   │      by different ways: new communicators are made
       │    ┌─────────────────────────┴──────────────────▶ Recovering
       │    │ a script's ranks have come to its end ─────▶ Exiting
       ▼    ▼                                                 │
      RunOver ◀───────────────────────────────────────────────┘
         ▲
         └── WorldEnded, from each state

How ranks leave: at a boundary together, by force, or with their world::

      Moving, Stopping                              Failing
            │ ask all ranks where they are             │ the reader sees the failure at once
            │ every rank answered                      │ SETTLE_SECONDS: all may fail alike
            │ name a boundary that none has passed     │
            │ the grace is over                        │ some are stuck in MPI, or in their code
            └────────────▶ interrupt them ◀────────────┘
                              │ all left ──▶ Recovering ──▶ RunOver: the world takes the next run
                              │ their time is over, or this MPI cannot recover
                              └──▶ RunOver, and the world is given up

An interrupt can leave messages between ranks pending, so new communicators are made before the
world takes the next run. Where MPI cannot revoke a communicator, the world ends in place of that.
The ranks of a script end with it, as processes do. They run what the script leaves to its exit
(``Exiting``), and are given up after ``LEAVING_SECONDS``, or at once if one failed or was
interrupted: the others may wait for it in MPI.

``RunOver`` has exactly one outcome:

- ``ENDED``: ``fact`` says how. A fact that has ended never changes its state again; its message
  has one sentence for the end, and then remarks. A failure is shown at once, so a life may be
  reported while its ranks still leave.
- ``RunContinues``: the run has lost or left its ranks, and its next attempt is queued. A lost node
  or a move is no failure of the run, and takes none of its retries: see
  ``core.recovery.resumption``.
- ``WAITS``: no rank has begun it, so it is queued as if nothing had happened.

What is said to be kept is on record: a life counts a snapshot once the store has it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import Enum
from pathlib import PurePath
from typing import Any, assert_never

import msgspec

from workbench.core.cluster.generation import Death, WorldFact
from workbench.core.cluster.model import ResizeAt
from workbench.core.moment import Moment
from workbench.core.recovery.departure import (
    INTERRUPT_SECONDS,
    EpochPace,
    is_saved_for,
    lead_seconds,
    shortened_grace,
)
from workbench.core.recovery.replay import culprit
from workbench.core.recovery.resumption import (
    NONE,
    Attempt,
    can_begin_again,
    can_move,
    follows,
    format_stop,
    format_stop_in_queue,
    has_left,
    has_left_unasked,
    has_saved,
    is_at_fault,
    is_failure,
    leaves,
    loss,
    may_differ,
    remedy,
    retry,
    saves_snapshots,
    why_continued,
    why_in_vain,
    why_never_begun,
    why_no_retry,
    why_stopped,
)
from workbench.core.run.hang import (
    IMPORT,
    decode_hang,
    describe_desertion,
    describe_stall,
    encode_hang,
    find_suspect,
    hang_of,
)
from workbench.core.run.model import Run, RunFact, RunKind, RunState
from workbench.core.run.rank_protocol import (
    AskPulse,
    AtEdge,
    Batch,
    Command,
    Ending,
    Interrupt,
    Pulse,
    SaveSoon,
    SnapshotSaved,
    StopAt,
    TrainingResumed,
)
from workbench.core.run.rank_standing import (
    RankFailure,
    RankStanding,
    are_in,
    boundary_ahead,
    deaf,
    endings,
    first_failure,
    left_alike,
    left_well,
    ranks_text,
    remaining,
    stuck,
    waiting,
    with_endings,
)

SUBMIT_SECONDS = 3.0  # engines that take longer to begin a run are busy
# A rank that has not begun by then may have been unreachable; each next wait is twice as long.
AGAIN_SECONDS = 5.0
PULSE_SECONDS = 1.0
IMPORT_SECONDS = 2.0  # a shorter import is over before it is read
# A rank's own report of its end and its engine's answer take different ways; the report is used.
LAST_WORD_SECONDS = 1.0
PULSE_PATIENCE = 0.5
NO_PACE = EpochPace()
SETTLE_SECONDS = 0.3
FREE_SECONDS = 1.2
# New communicators take a moment, but a long cell of %%px may come first.
RECOVER_SECONDS = 600.0
# The ranks of a script finalize MPI and exit after their last word, which takes 0.1 s.
LEAVING_SECONDS = 10.0
BUSY = "The engines are busy, with a %%px cell or with imports; this run comes next."
LOST_VARIABLES = "The ranks are restarted; earlier cells are repeated there when a run needs them."


# -- states


@dataclass(frozen=True)
class Beginning:
    """It was submitted, and not all ranks have begun it.

    Args:
        since: When it was submitted, by the steady clock, like all moments here.
        again: When it is submitted again.
        pause: Seconds from then to the next time.
        asked: When ranks that have not begun were last asked for a pulse.
    """

    since: float
    again: float
    pause: float = AGAIN_SECONDS
    asked: float = 0.0


@dataclass(frozen=True)
class Running:
    """All ranks have begun it, or it was taken over from an earlier supervisor."""


@dataclass(frozen=True, kw_only=True)
class Leaving:
    """Its ranks were asked to leave together, at a boundary.

    Args:
        since: When they were asked to leave.
        grace: Seconds until they are interrupted.
        at_epoch: Whether they leave at the end of an epoch.
        asked: When they were asked for their positions; 0 before.
        sent: When the boundary was sent to them; 0 before.
        interrupted: When they were interrupted; 0 before.
        because: Why no other ranks follow, as a clause; empty if some do, or a person stopped it.
    """

    since: float
    grace: float
    at_epoch: bool = False
    asked: float = 0.0
    sent: float = 0.0
    interrupted: float = 0.0
    because: str = ""


@dataclass(frozen=True, kw_only=True)
class Moving(Leaving):
    """It leaves its ranks, and continues on others.

    Args:
        nodes: Those that it leaves because the provider takes them back, as text; or empty.
    """

    nodes: str = ""


@dataclass(frozen=True, kw_only=True)
class Stopping(Leaving):
    """It leaves its ranks, and ends.

    Args:
        why: One sentence, if a limit of the run and no person asked for it.
    """

    why: str = ""


@dataclass(frozen=True)
class Retry:
    """The run is tried again once its ranks have left.

    Args:
        cause: What failed, the beginning of a sentence.
        failed_at: Iterations that the failed rank had done.
    """

    cause: str
    failed_at: int


@dataclass(frozen=True)
class Failing:
    """A rank has failed; the others leave.

    Args:
        since: When it failed.
        interrupted: When the others were interrupted; 0 before.
        retry: None if the failure is reported, and the run has ended.
        before: What its ranks were asked before that; None for nothing.
    """

    since: float
    interrupted: float = 0.0
    retry: Retry | None = None
    before: Leaving | None = None


@dataclass(frozen=True)
class Recovering:
    """All ranks have left, and make new communicators.

    Args:
        before: How they left.
        since: When they began to make them.
    """

    before: Failing | Leaving
    since: float


@dataclass(frozen=True)
class Exiting:
    """The ranks of a script have come to its end, and end by themselves.

    Args:
        since: When the last of them came to it.
        before: What they were asked before that; None for nothing.
    """

    since: float
    before: Leaving | None = None


class RunOutcome(Enum):
    """What becomes of a run that needs no next attempt."""

    ENDED = "ended"
    WAITS = "waits"


@dataclass(frozen=True)
class RunContinues:
    """The next attempt of the run is queued.

    Args:
        past: This attempt as it ended.
        message: From where the run continues.
        left_nodes: The nodes that it left because the provider takes them back.
        failed_at: Iterations that the failed rank had done; -1 if no failure counts.
    """

    past: RunFact
    message: str
    left_nodes: str = ""
    failed_at: int = NONE


@dataclass(frozen=True)
class RunOver:
    """The run is done with its world.

    Args:
        gave_up: Why that world has to end, as a clause; empty if it can take the next run.
        silent: The ranks on a node that does not answer, which is to be replaced.
        flaw: Why its ranks can run no other cell, as a clause; empty if they can.
        is_deaf: Whether they were so before the run.
    """

    outcome: RunOutcome | RunContinues
    gave_up: str = ""
    silent: tuple[int, ...] = ()
    flaw: str = ""
    is_deaf: bool = False


LifeState = Beginning | Running | Leaving | Failing | Recovering | Exiting | RunOver


# -- events


@dataclass(frozen=True)
class StoredRun:
    """What the store has of the run, also what its ranks wrote and could no longer send.

    Args:
        endings: How ranks left it, by rank.
        snapshot: The iteration of its newest snapshot; -1 for none.
        has_begun: Whether a training has begun that is saved.
    """

    endings: Mapping[int, Ending] = field(default_factory=dict)
    snapshot: int = NONE
    has_begun: bool = False


@dataclass(frozen=True)
class Heard:
    """A rank has sent a message."""

    message: Batch | Pulse
    now: Moment


@dataclass(frozen=True)
class TimePassed:
    """A turn of the supervisor.

    Args:
        recovered: Whether new communicators were made; None while that is unknown.
    """

    now: Moment
    recovered: bool | None = None


@dataclass(frozen=True)
class StopAsked:
    """A person, or a limit of the run, asks it to stop.

    Args:
        why: One sentence, if no person did.
    """

    now: Moment
    why: str = ""


@dataclass(frozen=True)
class EndAsked:
    """The nodes go, so the run stops in time.

    Args:
        because: Why they go, as a clause.
        left: Seconds until then.
        copy: Seconds that the copy of its last snapshot takes.
    """

    now: Moment
    because: str
    left: float
    copy: float


@dataclass(frozen=True)
class MoveAsked:
    """The run is to leave at a boundary, whenever that is, and to continue elsewhere.

    Args:
        nodes: The nodes that it leaves because the provider takes them back.
        at: Which boundary: the next one, or the one that ends the epoch.
        because: Why it waits for other ranks after that, as a clause; empty if some follow.
    """

    now: Moment
    nodes: str = ""
    at: ResizeAt = ResizeAt.STEP
    because: str = ""


@dataclass(frozen=True)
class NodesNoticed:
    """The provider takes nodes of the run back, which it does not leave yet.

    Args:
        nodes: Ids of all of them; empty for none.
    """

    now: Moment
    nodes: frozenset[str]


@dataclass(frozen=True)
class StayExplained:
    """It is known why the run keeps its ranks.

    Args:
        hindrance: Why it could not leave them now, in sentences; empty if it could.
        remark: Shown while the run lasts.
    """

    hindrance: str
    remark: str


@dataclass(frozen=True)
class RankCallFailed:
    """An engine reports that its rank could not begin, or not end, the run."""

    rank: int
    error: str
    now: Moment


@dataclass(frozen=True)
class RanksGone:
    """Processes of a script have ended, as they do one after another at its end."""

    deaths: tuple[Death, ...]
    stored: StoredRun


@dataclass(frozen=True)
class WorldEnded:
    """The world has ended, with the ranks that died in it.

    Args:
        is_asked: Whether the supervisor ended it.
        is_untouched: Whether no rank can have begun the run.
        is_lost: Whether all processes of this machine were lost, so that the run did not fail.
    """

    deaths: tuple[Death, ...]
    reason: str
    stored: StoredRun
    now: Moment
    is_asked: bool = False
    is_untouched: bool = False
    is_lost: bool = False


@dataclass(frozen=True)
class MessagesRefused:
    """The messages of its ranks are invalid.

    Args:
        why: One sentence.
        kept: What the store has of the run: it refused what came after that.
    """

    why: str
    kept: RunFact
    now: Moment


@dataclass(frozen=True)
class RedoneMeasured:
    """Answers ``MeasureRedone``.

    Args:
        seconds: How long the steps took that are done again, by the number of their attempt.
    """

    seconds: Mapping[int, float]


@dataclass(frozen=True)
class RemarkAdded:
    """A sentence belongs to the message of the run, whose end is reported."""

    sentence: str


LifeEvent = (
    Heard
    | TimePassed
    | StopAsked
    | EndAsked
    | MoveAsked
    | NodesNoticed
    | StayExplained
    | RankCallFailed
    | RanksGone
    | WorldEnded
    | MessagesRefused
    | RedoneMeasured
    | RemarkAdded
)


# -- actions


@dataclass(frozen=True)
class SendRanks:
    """Send a command to some ranks."""

    ranks: tuple[int, ...]
    command: Command


@dataclass(frozen=True)
class SubmitAgain:
    """Submit the run again; ranks that have begun ignore it."""


@dataclass(frozen=True)
class RecoverRanks:
    """Begin to make new communicators."""


@dataclass(frozen=True)
class MeasureRedone:
    """Find out how long the steps took that are done again; ``RedoneMeasured`` answers."""


@dataclass(frozen=True)
class NameCulprit:
    """Add a remark that names the earlier run whose code ended a rank."""

    run: str


LifeAction = SendRanks | SubmitAgain | RecoverRanks | MeasureRedone | NameCulprit
Answer = tuple["Life", tuple[LifeAction, ...]]


# -- the value


@dataclass(frozen=True)
class Life:
    """One attempt of a run, from its submission until its world can take the next one.

    Args:
        run: As it was submitted.
        world: The world whose ranks it is on.
        ranks: What these have said of themselves.
        fact: The observed state of the run, which may not be stored yet.
        fault_tolerant: Whether this MPI can free ranks from one another.
        past: The attempts before this one.
        snapshot: The iteration of the run's newest snapshot; -1 for none.
        saved: When it was reported or read, or one was asked for; infinitely long ago if unknown.
        noticed: The nodes that had a notice when it was last decided whether to save for them.
        redone: How long the steps took that are done again, by the number of their attempt.
        of_ranks: What the message has to say of the ranks; empty for nothing.
        replaces: Whether a node that hangs can be replaced by another one.
        may_wait: Whether it is queued again if no rank begins it.
        has_reached_edge: Whether its ranks have come to the edge of a training.
        has_exits: Whether processes of its script have ended in order.
        stays: Why it keeps its ranks, in sentences; or empty.
        culprit: The earlier run whose code ended a rank; empty if none did.
        pace: How fast its epochs pass.
        importing: What rank 0 imports.
        importing_since: Since when.
        failed_calls: What engines have reported.
    """

    run: Run
    world: WorldFact
    ranks: tuple[RankStanding, ...]
    state: LifeState
    fact: RunFact
    fault_tolerant: bool
    past: tuple[Attempt, ...] = ()
    snapshot: int = NONE
    saved: float = -math.inf
    noticed: frozenset[str] = frozenset()
    redone: Mapping[int, float] = field(default_factory=dict)
    of_ranks: str = ""
    replaces: bool = False
    may_wait: bool = False
    has_reached_edge: bool = False
    has_exits: bool = False
    stays: str = ""
    culprit: str = ""
    pace: EpochPace = NO_PACE
    importing: str = ""
    importing_since: float = 0.0
    failed_calls: tuple[RankCallFailed, ...] = ()

    def __repr__(self) -> str:
        return f"<Life of {self.run.wish.name}: {type(self.state).__name__}, {self.fact.state}>"

    @property
    def carrier(self) -> tuple[int, int]:
        """The generation of the run, and its number of ranks."""
        return self.world.generation, len(self.ranks)

    @property
    def over(self) -> RunOver | None:
        """How it was done with its world; None until it is."""
        return self.state if isinstance(self.state, RunOver) else None

    @property
    def is_reported(self) -> bool:
        """Whether its fact says how the run ended."""
        return self.fact.state.ended

    @property
    def leaving(self) -> Leaving | None:
        """What its ranks were asked when they were to leave; None if they were not."""
        match self.state:
            case Leaving():
                return self.state
            case Recovering(Failing(before=before)) | Failing(before=before):
                return before
            case Recovering(before=Leaving() as before) | Exiting(before=before):
                return before
        return None

    @property
    def retry(self) -> Retry | None:
        """Why it is tried again once its ranks have left; None if it is not."""
        match self.state:
            case Failing(retry=found) | Recovering(Failing(retry=found)):
                return found
        return None

    @property
    def interrupted(self) -> float:
        """When its ranks were interrupted; 0 before."""
        match self.state:
            case Leaving() | Failing():
                return self.state.interrupted
            case Recovering(before):
                return before.interrupted
        return 0.0

    @property
    def is_moving(self) -> bool:
        """Whether it leaves its world, to continue in another one."""
        return isinstance(self.leaving, Moving)

    @property
    def is_movable(self) -> bool:
        """Whether it can continue in another world; also while it leaves its own."""
        is_whole = isinstance(self.state, Beginning | Running | Moving | Exiting)
        is_stopping = isinstance(self.leaving, Stopping)
        can_leave = is_whole and not (is_stopping or self.is_reported)
        return can_leave and can_move(self.run.wish, self.snapshot)

    @property
    def is_at_edge(self) -> bool:
        """Whether its ranks wait at the edge of a training, for the run that it repeats."""
        return self.has_reached_edge and not self.is_reported

    @property
    def is_exiting(self) -> bool:
        """Whether it is a script at its end, whose ranks end by themselves."""
        return self.has_exits or isinstance(self.state, Exiting)

    @property
    def is_calm(self) -> bool:
        """Whether all its ranks are in the run, and neither they nor it are about to end."""
        return isinstance(self.state, Running) and are_in(self.ranks) and not self.failed_calls

    @property
    def has_begun(self) -> bool:
        """Whether a rank has begun it."""
        was_begun = self.run.fact.state is not RunState.SUBMITTED
        return was_begun or len(waiting(self.ranks)) < len(self.ranks)

    @property
    def has_failed(self) -> bool:
        """Whether it failed, or left ranks that can run no other cell."""
        has_flaw = self.over is not None and bool(self.over.flaw)
        return has_flaw or self.fact.state is RunState.FAILED

    @property
    def continues(self) -> bool:
        """Whether it is queued without a request of the user, as its next attempt or again."""
        return self.over is not None and self.over.outcome is not RunOutcome.ENDED

    @property
    def waits_again(self) -> bool:
        """Whether it is queued again, because no rank has begun it."""
        return self.over is not None and self.over.outcome is RunOutcome.WAITS

    @property
    def iteration(self) -> int:
        """Iterations that are done, also by what ranks said as they left."""
        found = (ending.iteration for ending in endings(self.ranks).values())
        return max(self.fact.iteration, *found, 0)

    @property
    def notice(self) -> str:
        """Why this attempt was begun, from where, and what else is said of its ranks."""
        continued = why_continued(
            self.past,
            len(self.ranks),
            restarts=self.run.wish.restarts,
            resumed_at=self.fact.resumed_at,
            redone=self.redone,
        )
        return " ".join(filter(None, (continued, self.of_ranks)))

    def with_fact(self, **changes: Any) -> Life:
        """Return it with these changes of its fact."""
        return replace(self, fact=replace(self.fact, **changes))

    def is_unexplained(self, death: Death) -> bool:
        """Return whether neither the run's own code nor its user explains a rank's death.

        Ranks that have trained in it were fit for it.
        """
        own = self.run.wish.path or f"<cell of run {self.run.id}>"
        has_trained = self.fact.iteration > self.run.fact.iteration
        is_explained = death.is_abort or _own_ending(self, death.rank) or own in death.trace
        return not (is_explained or has_trained)

    def lead_seconds(self, copy: float) -> float:
        """Return how long before its nodes go it is asked to stop, as ``departure`` says."""
        return lead_seconds(
            self.run.wish.options.grace, min(rank.rate for rank in self.ranks), copy
        )


def begin_life(
    run: Run, world: WorldFact, stored: StoredRun, now: Moment, *, fault_tolerant: bool
) -> Life:
    """Return the life of a run that is submitted now, or that an earlier supervisor has begun."""
    # It may continue on fewer ranks than it asks for.
    size = run.fact.ranks or run.wish.options.ranks or world.size
    ranks = tuple(RankStanding(ending=stored.endings.get(n)) for n in range(size))
    is_new = run.fact.state is RunState.SUBMITTED
    state = Beginning(now.steady, now.steady + AGAIN_SECONDS) if is_new else Running()
    return Life(run, world, ranks, state, run.fact, fault_tolerant, snapshot=stored.snapshot)


def advance(life: Life, event: LifeEvent) -> Answer:
    """Return the life after an event, and what is to be done."""
    after, actions = _answer(life, event)
    if after.fact.resumed != life.fact.resumed:  # only now it is known what is done again
        actions = (*actions, MeasureRedone())
    if after.culprit != life.culprit:
        actions = (*actions, NameCulprit(after.culprit))
    return after, actions


def _answer(life: Life, event: LifeEvent) -> Answer:
    match event:
        case TimePassed():
            return _pass_time(life, event)
        case Heard(message, now):
            return _hear(life, message, now), ()
        case StopAsked(now, why):
            return _stop(life, now, life.run.wish.options.grace, why=why), ()
        case EndAsked(now, because, left, copy):
            grace = shortened_grace(life.run.wish.options.grace, left, copy)
            is_known = isinstance(life.state, Moving) and bool(life.state.because)
            return life if is_known else _stop(life, now, grace, because=because), ()
        case MoveAsked():
            return _move(life, event), ()
        case NodesNoticed(now, nodes):
            return _save_for(life, nodes, now)
        case StayExplained(hindrance, remark):
            life = life if life.is_reported else life.with_fact(hindrance=hindrance)
            return replace(life, stays=remark), ()
        case RankCallFailed(rank):
            is_news = rank < len(life.ranks) and rank not in {one.rank for one in life.failed_calls}
            calls = (*life.failed_calls, event) if is_news else life.failed_calls
            return replace(life, failed_calls=calls), ()
        case RanksGone(deaths, stored):
            return _lose_processes(life, deaths, stored), ()
        case WorldEnded():
            return (life if life.over else _lose_world(life, event)), ()
        case MessagesRefused(why, kept, now):
            return _refuse(life, why, kept, now), ()
        case RedoneMeasured(seconds):
            return replace(life, redone=seconds), ()
        case RemarkAdded(sentence):
            return _with_remark(life, sentence), ()
        case _:
            assert_never(event)


# -- what is asked of it


def _stop(life: Life, now: Moment, grace: float, *, why: str = "", because: str = "") -> Life:
    """Stop the run; no effect if it stops or has ended already."""
    wished = Stopping(since=now.steady, grace=grace, why=why, because=because)
    state: LifeState
    match life.state:
        case Beginning() | Running():
            state = wished
        case Moving() as before:
            state = replace(wished, interrupted=before.interrupted)
            if not before.at_epoch:  # else the boundary that they know may be far
                state = replace(state, asked=before.asked, sent=before.sent)
        case Exiting(since, before=None | Moving()):
            state = Exiting(since, wished)
        case Failing():
            state = life.state  # if it is tried again, the queue ends it
        case _:
            return life
    life = life if life.is_reported else life.with_fact(state=RunState.STOPPING)
    return replace(life, state=state)


def _move(life: Life, event: MoveAsked) -> Life:
    """Let the run leave its world, or leave it sooner than at the end of an epoch."""
    at_epoch = event.at is ResizeAt.EPOCH and not event.nodes
    match life.state:
        case Moving() as before:
            may_leave, interrupted = before.at_epoch and not at_epoch, before.interrupted
        case Beginning() | Running():
            may_leave, interrupted = life.is_movable, 0.0
        case _:
            return life
    if not may_leave:
        return life
    # A script that loads its own state need not come to a boundary.
    must_come = at_epoch or not life.run.wish.restarts
    state = Moving(
        since=event.now.steady,
        grace=math.inf if must_come else life.run.wish.options.grace,
        at_epoch=at_epoch,
        interrupted=interrupted,
        nodes=event.nodes,
        because=event.because,
    )
    return replace(life, state=state)


def _save_for(life: Life, nodes: frozenset[str], now: Moment) -> Answer:
    """Have a run that trains on save soon, if nodes have a notice that had none before."""
    is_reading = life.run.fact.attempt > 1 and math.isinf(life.saved)
    if not (isinstance(life.state, Running) and saves_snapshots(life.run.wish)) or is_reading:
        return life, ()
    is_due = is_saved_for(nodes, life.noticed, now.steady - life.saved)
    life = replace(life, noticed=nodes)
    if not is_due or life.ranks[0].ending:
        return life, ()
    asked = SendRanks((0,), SaveSoon(life.run.execution))
    return replace(life, saved=now.steady), (asked,)


# -- what its ranks say


def _hear(life: Life, message: Batch | Pulse, now: Moment) -> Life:
    if life.over or message.rank >= len(life.ranks):
        return life
    ranks = list(life.ranks)
    one = ranks[message.rank]
    if isinstance(message, Batch):
        life = life if life.is_reported else _progress(life, message, now)
        one = replace(one, begun=True, ending=message.ending or one.ending)
    else:
        one = one.idle_at(now.steady) if message.idle else one.after(message, now.steady)
    ranks[message.rank] = one
    has_all = isinstance(life.state, Beginning) and not waiting(ranks)
    return replace(life, ranks=tuple(ranks), state=Running() if has_all else life.state)


def _progress(life: Life, batch: Batch, now: Moment) -> Life:
    fact, progress = life.fact, batch.progress
    saved, resumed = batch.event(SnapshotSaved), batch.event(TrainingResumed)
    if fact.state is RunState.SUBMITTED:
        fact = replace(fact, state=RunState.RUNNING, started=fact.started or now.wall)
    if resumed:
        at = resumed.iteration
        fact = replace(fact, resumed_at=at, resumed=now.wall, iteration=at)
    if progress is not None and progress.iteration >= fact.iteration:
        fact = replace(fact, **msgspec.structs.asdict(progress))
    return replace(
        life,
        fact=fact,
        has_reached_edge=life.has_reached_edge or batch.event(AtEdge) is not None,
        snapshot=saved.iteration if saved else life.snapshot,
        saved=now.steady if saved or resumed else life.saved,
        pace=life.pace.at(fact.epoch, now.steady),
    )


def _refuse(life: Life, why: str, kept: RunFact, now: Moment) -> Life:
    """Fail the run because of invalid messages of its ranks, and end it there."""
    if life.is_reported:  # messages that the store did not take are dropped
        fact = replace(kept, state=life.fact.state, ended=now.wall, message=life.fact.message)
    else:
        fact = replace(kept, state=RunState.FAILED, message=why, ended=now.wall)
    state = life.state
    match state:
        case Beginning() | Running() | Leaving():
            state = Failing(now.steady, life.interrupted, before=life.leaving)
        case Failing():
            state = replace(state, retry=None)
        case Recovering(Failing() as before, since):
            state = Recovering(replace(before, retry=None), since)
        case RunOver():
            state = replace(state, outcome=RunOutcome.ENDED)
    return replace(life, fact=fact, state=state)


# -- time passes


def _pass_time(life: Life, event: TimePassed) -> Answer:
    now, actions = event.now, tuple[LifeAction, ...]()
    if life.over is None:
        life = _end_after_failed_call(life, now)
    if isinstance(life.state, Beginning):
        life, actions = _begin(life, life.state, now)
    if life.over is None:
        life, more = _let_leave(life, now, event.recovered)
        actions = (*actions, *more)
    if not (life.over or life.is_reported):
        life = _look(life, now)
    if life.is_movable and not life.over and (cause := describe_stall(life.ranks, now.steady)):
        life = _leave_stalled(life, cause, now)
    return life, actions


def _end_after_failed_call(life: Life, now: Moment) -> Life:
    """End the run and its world because of a rank that will send nothing else."""
    for call in life.failed_calls:
        standing, since = life.ranks[call.rank], call.now.steady
        if standing.ending or standing.left or now.steady - since < LAST_WORD_SECONDS:
            continue
        if not (life.is_reported or life.retry):
            life = _report_failure(life, call.rank, call.error, "", now)
        return _give_up(life, f"rank {call.rank} can run no other cell", now)
    return life


def _begin(life: Life, state: Beginning, now: Moment) -> Answer:
    """Submit the run again to ranks that have not begun, and give up those that never do.

    They may have reconnected just now: the controller drops requests to an engine that is not
    connected, without an error.
    """
    actions: tuple[LifeAction, ...] = ()
    late = waiting(life.ranks)
    if now.steady >= state.again:
        actions = (SubmitAgain(),)
        pause = 2 * state.pause
        state = replace(state, pause=pause, again=now.steady + pause)
    is_late = now.steady - state.since > SUBMIT_SECONDS
    if is_late and now.steady - state.asked >= PULSE_SECONDS:
        actions = (*actions, SendRanks(late, AskPulse(life.run.execution)))
        state = replace(state, asked=now.steady)
    life = replace(life, state=state)
    if not (found := deaf(life.ranks, now.steady)):
        return life, actions
    flaw = f"{ranks_text(found)} accepted no cell"
    actions = (*actions, SendRanks(late, Interrupt(life.run.execution)))
    if _can_wait(life):
        life = _wait_again(life)
    else:
        error = "it accepted no cell, although it executed none"
        life = _report_failure(life, found[0], error, "", now)
    return _end(life, gave_up=flaw, flaw=flaw, is_deaf=True), actions


def _look(life: Life, now: Moment) -> Life:
    """Show what is seen of a run, and end it where all ranks wait for some that have ended."""
    doing = life.ranks[0].doing
    doing = doing if doing.startswith(IMPORT) and not life.fact.iteration else ""
    if doing != life.importing:
        life = replace(life, importing=doing, importing_since=now.steady)
    life = life.with_fact(message=_message(life, now))
    if life.interrupted or life.run.wish.kind is RunKind.MEASUREMENT:
        return life  # while pairs are measured, the other ranks wait as planned
    life = life.with_fact(hang=encode_hang(hang_of(life.ranks, now.steady)))
    if not isinstance(life.state, Beginning | Running):
        return life
    wish = life.run.wish
    source = PurePath(wish.path).name if wish.kind is RunKind.SCRIPT else "the cell"
    if why := describe_desertion(life.ranks, now.steady, source):
        life = _report(life.with_fact(hang=""), RunState.FAILED, why, now)  # the message says it
        life = replace(life, state=Failing(now.steady))
    return life


def _message(life: Life, now: Moment) -> str:
    """Return the message of a run that has not ended."""
    is_unheard = life.fact.state is RunState.SUBMITTED
    match life.state:
        case Beginning(since) if is_unheard and now.steady - since > SUBMIT_SECONDS:
            return BUSY
    if isinstance(moving := life.leaving, Moving):
        return leaves(moving.nodes, at_epoch=moving.at_epoch, because=moving.because)
    if life.stays or life.notice:
        return life.stays or life.notice
    is_long = now.steady - life.importing_since >= IMPORT_SECONDS
    return f"The ranks {life.importing}." if life.importing and is_long else ""


def _leave_stalled(life: Life, cause: str, now: Moment) -> Life:
    """Give up ranks that wait for each other for good; the run is tried again on others.

    A node that does not answer is left for another one. That is no failure of the run if it has
    got on since it began there; else the program may be what keeps its node from answering.
    """
    fact = life.fact
    hosts = [rank.host for rank in sorted(life.world.ranks, key=lambda rank: rank.rank)]
    suspicion = find_suspect(life.ranks, hosts, now.steady) if life.replaces else None
    silent = suspicion.ranks if suspicion else ()
    cause = suspicion.cause if suspicion else cause
    reason = "its ranks waited for each other"
    if suspicion and has_saved(fact.attempt, fact.resumed_at, life.snapshot):
        life = _continue(life, RunState.LOST, cause, now)
    elif why := _why_no_retry(life, fact.iteration, ""):
        life = _report(life, RunState.FAILED, f"{cause}.", now)
        life = _with_remark(life, remedy(life.run, life.snapshot, why))
        life = _give_up(life, reason, now)
    else:
        life = _continue(life, RunState.FAILED, cause, now, failed_at=fact.iteration)
    return _end(life, gave_up=reason, silent=silent)


# -- how its ranks leave


def _let_leave(life: Life, now: Moment, recovered: bool | None) -> Answer:
    """Take the next step of the ranks' leave, if one is due."""
    state = life.state
    if isinstance(state, Beginning | Running | Leaving):
        is_leaving = isinstance(state, Leaving)
        is_freed = is_leaving and bool(life.interrupted)
        failure = first_failure(life.ranks, is_leaving=is_leaving, is_freed=is_freed)
        if failure is not None and not _is_interrupted_to_move(life):
            return _fail(life, failure, now), ()
    if not remaining(life.ranks):
        return _let_go(life, now, recovered)
    match state:
        case Failing():
            return _free(life, state, now)
        case Leaving():
            return _ask_to_leave(life, state, now)
    return life, ()


def _fail(life: Life, failure: RankFailure, now: Moment) -> Life:
    """Report that a rank has failed, or let the run be tried again from its snapshot."""
    ending = life.ranks[failure.rank].ending
    is_stopping = isinstance(life.state, Stopping)
    may_retry = can_move(life.run.wish, life.snapshot) and not is_stopping
    state = Failing(now.steady, life.interrupted, before=life.leaving)
    why = ""
    if may_retry and ending is not None and may_differ(life.run.wish.kind, ending):
        why = _why_no_retry(life, ending.iteration, failure.traceback)
        if not why:
            cause = _failure_of(life, failure.rank, failure.error)
            error, trace = failure.error.rstrip("."), failure.traceback
            life = life.with_fact(iteration=life.iteration, failure=error, error=trace)
            return replace(life, state=replace(state, retry=Retry(cause, ending.iteration)))
    life = _report_failure(
        life, failure.rank, failure.error, failure.traceback, now, whole=failure.whole
    )
    if why:
        life = _with_remark(life, remedy(life.run, life.snapshot, why))
    return replace(life, state=state)


def _let_go(life: Life, now: Moment, recovered: bool | None) -> Answer:
    """Let ranks that have all left take the next run, recover, or end."""
    state = life.state
    if life.run.wish.is_process:
        return _let_exit(life, now), ()
    if isinstance(state, Recovering):
        if recovered is None and now.steady - state.since < RECOVER_SECONDS:
            return life, ()
        if not recovered:
            return _give_up(life, "it could not be recovered", now), ()
        return _release(life, now), ()
    gone = [n for n, ending in endings(life.ranks).items() if ending.gone]
    if gone:
        return _give_up(life, f"{ranks_text(gone)} left for good", now), ()
    if not isinstance(state, Leaving | Failing):
        return _release(life, now), ()
    has_failed = isinstance(state, Failing)
    if not state.interrupted and (not has_failed or left_alike(life.ranks)):
        return _release(life, now), ()
    if not life.fault_tolerant:
        return _give_up(life, "this MPI cannot recover from a rank that left alone", now), ()
    return replace(life, state=Recovering(state, now.steady)), (RecoverRanks(),)


def _let_exit(life: Life, now: Moment) -> Life:
    """Let the processes of a script end by themselves, if all have come to its end."""
    if not (left_well(life.ranks) and not life.interrupted):
        return _give_up(life, "its script has ended", now)
    if not isinstance(life.state, Exiting):
        return replace(life, state=Exiting(now.steady, life.leaving))
    if now.steady - life.state.since >= LEAVING_SECONDS:
        return _give_up(life, "its ranks did not end by themselves", now)
    return life


def _free(life: Life, state: Failing, now: Moment) -> Answer:
    """Interrupt the ranks that a failed one has left behind, or give them up."""
    if not state.interrupted:
        if now.steady - state.since < SETTLE_SECONDS:
            return life, ()
        life = replace(life, state=replace(state, interrupted=now.steady))
        return life, (SendRanks(remaining(life.ranks), Interrupt(life.run.execution)),)
    held = stuck(life.ranks, state.interrupted, now.steady)
    if held and now.steady - state.interrupted >= FREE_SECONDS:
        return _give_up(life, f"{ranks_text(held)} did not leave the failed cell", now), ()
    return life, ()


def _ask_to_leave(life: Life, state: Leaving, now: Moment) -> Answer:
    """Take the next step towards a boundary at which all ranks leave."""
    there, run = remaining(life.ranks), life.run.execution
    have_answered = all(life.ranks[n].heard >= state.asked for n in there)
    if not life.has_begun:
        return _cancel(life, now), (SendRanks(there, Interrupt(run)),)
    if state.interrupted:
        held = stuck(life.ranks, state.interrupted, now.steady)
        if held and now.steady - state.interrupted >= INTERRUPT_SECONDS:
            return _give_up(life, f"{ranks_text(held)} did not stop when interrupted", now), ()
    elif now.steady - state.since >= state.grace:
        life = replace(life, state=replace(state, interrupted=now.steady))
        return life, (SendRanks(there, Interrupt(run)),)
    elif not state.asked:
        life = replace(life, state=replace(state, asked=now.steady))
        return life, (SendRanks(there, AskPulse(run)),)
    elif not state.sent and (have_answered or now.steady - state.asked >= PULSE_PATIENCE):
        at = boundary_ahead(life.ranks, state.asked, now.steady)
        life = replace(life, state=replace(state, sent=now.steady))
        return life, (SendRanks(there, StopAt(run, at, state.at_epoch)),)
    return life, ()


def _cancel(life: Life, now: Moment) -> Life:
    """Take back a run that no rank has begun."""
    match life.state:
        case Moving():
            return _report_stop(life, now)
        case Stopping(because=because):
            message = format_stop_in_queue(life.run, life.snapshot, because)
            life = _report(life, RunState.STOPPED, message, now)
    return _end(life)


# -- how it ends


def _lose_processes(life: Life, deaths: tuple[Death, ...], stored: StoredRun) -> Life:
    """Note that processes have ended in order, if all that are gone have come to the end."""
    found = [stored.endings.get(death.rank) for death in deaths]
    has_exits = bool(found) and all(one and one.state == "finished" for one in found)
    if life.over or isinstance(life.state, Failing) or not has_exits:
        return life
    ranks = with_endings(life.ranks, stored.endings)
    return replace(life, ranks=ranks, snapshot=stored.snapshot, has_exits=True)


def _lose_world(life: Life, event: WorldEnded) -> Life:
    """Decide what becomes of a run whose world has ended."""
    now = event.now
    life = replace(
        life,
        ranks=with_endings(life.ranks, event.stored.endings),
        snapshot=event.stored.snapshot,
    )
    has_come_to_its_end = life.run.wish.is_process and left_well(life.ranks)
    if event.is_untouched and not life.has_begun and _can_wait(life):
        return _wait_again(life)
    if life.is_reported:
        return _end(life)
    if life.retry:
        return _finish(life, now)
    if has_come_to_its_end and not life.interrupted:
        return _end(_finish_exited(life, () if event.is_asked else event.deaths, now))
    return _lose_ranks(life, event)


def _lose_ranks(life: Life, event: WorldEnded) -> Life:
    """Continue a run that has lost its ranks, if it can, and neither it nor its user ended them."""
    now, death = event.now, next(iter(event.deaths), None)
    has_failed = is_failure(event.deaths) and not event.is_lost
    is_blameless = _is_blameless(life, event)
    trace, why = death.trace if death else "", ""
    if is_blameless and has_failed:
        why = _why_no_retry(life, life.fact.iteration, trace)
        if not (why or life.run.wish.restarts):
            why = why_never_begun(life.past, life.iteration)
    elif is_blameless and not life.run.wish.restarts:
        why = why_in_vain(life.past, life.fact, life.snapshot)
    if is_blameless and not why:
        failed_at = life.fact.iteration if has_failed else NONE
        failure = death.cause if death else ""
        life = life.with_fact(error=trace, failure=failure)
        return _continue(life, RunState.LOST, loss(death, event.reason), now, failed_at=failed_at)
    life = _report_loss(life, death, event.reason, now)
    if life.fact.state is RunState.LOST or why or (death and death.is_lost):
        life = _with_remark(life, remedy(life.run, life.snapshot, why))
    return _end(life)


def _is_blameless(life: Life, event: WorldEnded) -> bool:
    """Return whether the run can continue, and neither it nor its user ended the world."""
    found = endings(life.ranks).values()
    has_raised = any(one.state == "failed" and not one.secondary for one in found)
    is_own = has_raised or isinstance(life.leaving, Stopping) or is_at_fault(event.deaths)
    may_continue = can_move(life.run.wish, life.snapshot) or can_begin_again(
        life.run.wish,
        life.past,
        has_begun=event.stored.has_begun,
    )
    return may_continue and not (is_own or event.is_asked)


def _report_loss(life: Life, death: Death | None, reason: str, now: Moment) -> Life:
    lost = _lost_variables(life)
    if death is None:
        if isinstance(life.leaving, Stopping):
            return _report_stop(life, now, lost)
        return _report(life, RunState.LOST, f"The world of this run ended: {reason}.", now)
    if ending := _own_ending(life, death.rank):
        # It reported its error before it died, as it does before MPI_Abort.
        error, trace, whole = ending.error, ending.traceback, ending.whole
        life = _report_failure(life, death.rank, error, trace, now, whole=whole)
    else:
        life = _report_failure(life, death.rank, death.cause, death.report, now)
    return _with_remark(life, lost)


def _finish_exited(life: Life, deaths: tuple[Death, ...], now: Moment) -> Life:
    """Report how a script ended whose processes are gone."""
    crash = next((death for death in deaths if not death.is_plain), None)
    if crash is None:
        return _finish(life, now)
    error = f"{crash.cause}, while its process exited after the end of the script"
    return _report_failure(life, crash.rank, error, crash.report, now)


def _release(life: Life, now: Moment) -> Life:
    """End the run on ranks that can take the next one, unless it has spoiled them."""
    life = _finish(life, now)
    flaws = [(n, one.spoiled) for n, one in endings(life.ranks).items() if one.spoiled]
    if not flaws:
        return _end(life)
    rank, why = flaws[0]
    flaw = f"rank {rank} can run no other cell: {why}"
    life = _with_remark(
        life,
        f"After this run {flaw}. The ranks are replaced, and run "
        f"{life.run.wish.name!r} is not repeated on the new ones.",
    )
    return _end(life, gave_up=flaw, flaw=flaw)


def _finish(life: Life, now: Moment) -> Life:
    """Report how a run ended that all ranks have left."""
    if life.is_reported:
        return life
    if retried := life.retry:
        return _continue(life, RunState.FAILED, retried.cause, now, failed_at=retried.failed_at)
    found = [*endings(life.ranks).values()]
    # A supervisor that stored the endings may have ended before it stored the progress.
    life = life.with_fact(iteration=life.iteration)
    if not _is_interrupted_to_move(life) and all(one.state == "finished" for one in found):
        return _report(life, RunState.FINISHED, life.notice, now)
    # An earlier supervisor may have asked them to leave.
    is_left = life.is_movable and has_left_unasked(found, is_asked=life.leaving is not None)
    return _report_stop(life, now, is_move=is_left)


def _give_up(life: Life, reason: str, now: Moment) -> Life:
    """End the run together with its world."""
    lost = _lost_variables(life)
    has_left = life.run.wish.is_process and not remaining(life.ranks)
    if life.is_reported:
        life = _with_remark(life, f"{reason[0].upper()}{reason[1:]}. {lost}" if lost else "")
    elif life.retry or has_left:
        life = _finish(life, now)
    else:
        life = _report_stop(life, now, lost)
    return _end(life, gave_up=reason)


def _report_stop(life: Life, now: Moment, lost: str = "", *, is_move: bool = False) -> Life:
    """Report that the run stopped, or let it continue elsewhere.

    Args:
        lost: What is lost with its ranks, one sentence; empty for nothing.
        is_move: Whether its ranks left for others although this supervisor has not asked them.
    """
    asked = life.leaving
    because = asked.because if asked else ""
    if is_move or isinstance(asked, Moving):
        nodes = asked.nodes if isinstance(asked, Moving) else ""
        return _continue(life, RunState.STOPPED, has_left(len(life.ranks), nodes, because), now)
    why = asked.why if isinstance(asked, Stopping) else ""
    iteration = life.iteration
    message = format_stop(life.run, iteration, life.snapshot, because)
    life = _report(life, RunState.STOPPED, message, now)
    life = life.with_fact(stopped_at=iteration, remark=why_stopped(message))
    # Where the nodes go, the ranks are not started again.
    return life if because else _with_remark(life, f"{why} {lost}")


def _continue(
    life: Life, state: RunState, cause: str, now: Moment, *, failed_at: int = NONE
) -> Life:
    """End this attempt, and let the next one be queued.

    Args:
        state: How the attempt ended.
        cause: Why it ended, the beginning of a sentence.
        failed_at: Iterations that the failed rank had done; -1 if no failure counts.
    """
    wish, moving = life.run.wish, life.leaving
    again = f" {retry(life.past, wish.options.retries)}" if failed_at != NONE else ""
    done, said = life.iteration, f"{cause}.{again}"
    past = replace(life.fact, state=state, ended=now.wall, iteration=done, message=said)
    message = f"{cause}; {follows(wish, life.snapshot)}.{again}"
    nodes = moving.nodes if isinstance(moving, Moving) else ""
    return replace(life, state=RunOver(RunContinues(past, message, nodes, failed_at)))


def _can_wait(life: Life) -> bool:
    is_unasked = isinstance(life.state, Beginning | Running) and not life.is_reported
    return life.may_wait and life.run.fact.attempt == 1 and is_unasked and not life.has_begun


def _wait_again(life: Life) -> Life:
    """Queue the run, which no rank has begun, for the next world."""
    life = life.with_fact(state=RunState.QUEUED, generation=0, ranks=0, message="", hang="")
    return replace(life, state=RunOver(RunOutcome.WAITS))


def _end(
    life: Life,
    *,
    gave_up: str = "",
    silent: tuple[int, ...] = (),
    flaw: str = "",
    is_deaf: bool = False,
) -> Life:
    """Be done with the world; an outcome that is decided already stays."""
    outcome = life.over.outcome if life.over else RunOutcome.ENDED
    return replace(life, state=RunOver(outcome, gave_up, silent, flaw, is_deaf))


# -- in words


def _report(life: Life, state: RunState, message: str, now: Moment) -> Life:
    hang = decode_hang(life.fact.hang)
    kept = life.fact.hang if hang and hang.sure and state is not RunState.FINISHED else ""
    return life.with_fact(state=state, message=message, ended=now.wall, hang=kept)


def _report_failure(
    life: Life, rank: int, error: str, traceback: str, now: Moment, *, whole: str = ""
) -> Life:
    host, failure = _host(life, rank), error.rstrip(".")
    life = _report(life, RunState.FAILED, f"{_failure_of(life, rank, error)}.", now).with_fact(
        failed_rank=rank, failed_host=host, error=traceback, failure=failure, traceback=whole
    )
    life = replace(life, culprit=culprit(traceback, life.run.id))
    return _with_remark(life, life.notice)


def _with_remark(life: Life, remark: str) -> Life:
    """Add a remark to the message of a run whose end is reported."""
    remark = remark.strip()
    if not (remark and life.is_reported):
        return life
    message, before = f"{life.fact.message} {remark}", f"{life.fact.remark} {remark}"
    return life.with_fact(message=message.strip(), remark=before.strip())


def _failure_of(life: Life, rank: int, error: str) -> str:
    """Return that a rank has failed, without the period."""
    return f"Rank {rank} on {_host(life, rank)} failed: {error.rstrip('.')}"


def _host(life: Life, rank: int) -> str:
    hosts = {fact.rank: fact.host for fact in life.world.ranks}
    return hosts.get(rank, "an unknown host")


def _lost_variables(life: Life) -> str:
    """Return what is lost with the ranks, one sentence; empty for nothing."""
    return "" if life.run.wish.is_process else LOST_VARIABLES


def _own_ending(life: Life, rank: int) -> Ending | None:
    ending = endings(life.ranks).get(rank)
    return ending if ending is not None and ending.state == "failed" else None


def _is_interrupted_to_move(life: Life) -> bool:
    """Return whether it starts again elsewhere, however its script answers the interrupt."""
    return life.is_moving and life.run.wish.restarts and bool(life.interrupted)


def _why_no_retry(life: Life, iteration: int, traceback: str) -> str:
    return why_no_retry(life.run.wish.options.retries, life.past, iteration, traceback)
