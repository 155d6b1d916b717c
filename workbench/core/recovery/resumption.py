"""Decide whether a run that has lost its world continues by itself, and say from where.

It continues from its newest snapshot if a node was lost, a rank's process was killed, or the world
ended without being asked. A training that has no snapshot, because none was complete yet, all of
them were damaged, or the nodes with all copies are gone, begins again at iteration 0: but only once
if its ranks are killed before any iteration. A script that loads its own checkpoints is started
again without one.

A run that has failed is tried again where another try may end differently: a rank's process was
killed or crashed, or a script raised. What the provider does is no failure of the run, and is never
counted: a lost node, an interruption notice, a move to another size. Losses without progress are
bounded all the same, because a program may bring its nodes down: see ``MOST_VAIN``. A cell that
raises ends at once, because its author waits for the traceback. So does what a program does on
purpose: ``sys.exit``, ``os._exit`` and ``MPI_Abort``.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from itertools import takewhile

from workbench.core.cluster.generation import Death
from workbench.core.run.model import Run, RunFact, RunKind, RunState, RunWish
from workbench.core.run.rank_protocol import Ending
from workbench.core.units import count, duration

MOST_VAIN = 10
"""A run survives so many losses in a row that do not count, if it has completed no snapshot between
them. Scripts that keep their own checkpoints have no such limit: theirs are not seen."""

_ADDRESS = re.compile(r"0x[0-9a-fA-F]+")

NONE = -1
"""The iteration of the newest snapshot of a run that has none."""

NO_COPY = "Each copy of its snapshots was on nodes that are gone."


@dataclass(frozen=True)
class Attempt:
    """One attempt of a run, which has ended.

    Args:
        number: 1 for the first.
        state: How it ended: ``lost``, or ``stopped`` for one that only left its world for another,
            or the state in which the run had ended.
        message: Why it ended, in sentences.
        resumed_at: The iteration from which it continued; -1 for none.
        iteration: Iterations done when it ended.
        snapshot: The iteration of the newest snapshot then; -1 for none.
        last_point: The sequence number of the run's newest point then.
        is_automatic: Whether the next attempt followed without a request of the user.
        last_output: The sequence number of its newest piece of output.
        left_nodes: Ids of the nodes that it left because the provider takes them back, as text.
        failed_at: Iterations that the rank had done which failed; -1 unless the attempt ended by a
            failure that counts.
        failure: The last line of that failure; empty for none.
        error: Its traceback, or empty.
        resumed: Epoch seconds at which it had read its snapshot; 0 if it read none.
    """

    number: int
    generation: int
    ranks: int
    started: float
    ended: float
    state: RunState
    message: str
    resumed_at: int = NONE
    iteration: int = 0
    snapshot: int = NONE
    last_point: int = 0
    is_automatic: bool = False
    last_output: int = 0
    left_nodes: str = ""
    failed_at: int = NONE
    failure: str = ""
    error: str = ""
    resumed: float = 0.0

    @property
    def failed(self) -> bool:
        """Whether it ended by a failure that counts."""
        return self.failed_at != NONE

    @property
    def has_saved(self) -> bool:
        """Whether it has completed a snapshot of its own."""
        return has_saved(self.number, self.resumed_at, self.snapshot)


class ContinuationCause(Enum):
    """Why a run continued in another attempt."""

    LOSS = "loss"
    MOVE = "move"
    REQUEST = "request"


@dataclass(frozen=True)
class Continuation:
    """Where a run continued from a snapshot in another attempt.

    Args:
        iteration: Iteration of the snapshot.
        redone: Iterations that had been done after it.
        before: World size of the last attempt that trained.
        ranks: World size from here on.
        last_point: Sequence number of the run's newest point before.
        left_nodes: The nodes that it left because the provider takes them back, as text.
    """

    iteration: int
    cause: ContinuationCause
    redone: int
    before: int
    ranks: int
    last_point: int
    left_nodes: str = ""


_RESUMABLE_STATES = frozenset({RunState.STOPPED, RunState.FAILED, RunState.LOST})


def is_resumable(kind: RunKind) -> bool:
    """Return whether runs of this kind can save snapshots."""
    return kind in (RunKind.CELL, RunKind.SCRIPT)


def saves_snapshots(wish: RunWish) -> bool:
    """Return whether a run's trainings save snapshots; a script that restarts saves its own."""
    return is_resumable(wish.kind) and not wish.restarts


def can_move(wish: RunWish, snapshot: int) -> bool:
    """Return whether a run can continue in another world.

    Args:
        snapshot: The iteration of its newest snapshot; -1 for none.
    """
    return wish.restarts or (is_resumable(wish.kind) and snapshot != NONE)


def can_begin_again(wish: RunWish, past: Sequence[Attempt], *, has_begun: bool) -> bool:
    """Return whether a run that has lost its world begins again at iteration 0.

    What fails before a training has begun is most likely the program itself; its author waits for
    it. A failure after snapshots that were damaged since is like any other.

    Args:
        past: Its attempts before the one that was lost.
        has_begun: Whether a training has begun that is saved.
    """
    was_saved = any(one.snapshot != NONE for one in past)
    return saves_snapshots(wish) and (was_saved or has_begun)


def may_begin_without(past: Sequence[Attempt], snapshot: int) -> bool:
    """Return whether a run begins again if each copy of its snapshots is lost for good.

    One that its user resumes from a snapshot ends with an error instead: it is another question
    whether all of it is to be paid again.

    Args:
        past: Its attempts that have ended.
        snapshot: The iteration of its newest snapshot; -1 for none.
    """
    return snapshot != NONE and bool(past) and past[-1].is_automatic


def kept_ranks(
    wish: RunWish, past: Sequence[Attempt], present: int, undivided: str, *, is_asked: bool
) -> int:
    """Return the ranks on which alone a run continues by itself; 0 for any.

    Args:
        past: Its attempts that have ended.
        present: The ranks that there are.
        undivided: The kind of its iterator, if that cannot be divided among other ranks; or empty.
        is_asked: Whether they are on as many nodes as the user has asked for.
    """
    if is_asked or wish.restarts or not (undivided and past and past[-1].is_automatic):
        return 0
    before = past[-1].ranks
    return 0 if before == min(wish.options.ranks or present, present) else before


def why_it_keeps(ranks: int, present: int, undivided: str) -> str:
    """Return why a run waits for its number of ranks.

    Args:
        ranks: Those on which it was.
        present: Those that there are.
        undivided: The kind of its iterator.
    """
    return (
        f"It waits for {count(ranks, 'rank')}, and {present} are there: its {undivided} cannot be "
        "divided among another number of ranks. If you resize the cluster, it continues there."
    )


def insists(past: Sequence[Attempt]) -> bool:
    """Return whether a run needs a snapshot: its user resumed it, and none has been read since.

    Args:
        past: Its attempts that have ended, oldest first.
    """
    asked = max((n for n, one in enumerate(past) if not one.is_automatic), default=NONE)
    return asked != NONE and all(one.resumed_at == NONE for one in past[asked + 1 :])


def has_saved(attempt: int, resumed_at: int, snapshot: int) -> bool:
    """Return whether an attempt has completed a snapshot of its own.

    Args:
        attempt: 1 for the first.
        resumed_at: The iteration from which it continued; -1 for none.
        snapshot: The iteration of the run's newest snapshot at its end; -1 for none.
    """
    return snapshot > resumed_at and (attempt == 1 or resumed_at != NONE)


def offers_resume(run: Run, snapshot: int) -> bool:
    """Return whether a page offers to resume a run: it ended before it was finished.

    Args:
        snapshot: The iteration of its newest snapshot; -1 for none.
    """
    return can_move(run.wish, snapshot) and run.fact.state in _RESUMABLE_STATES


def continuations(past: Sequence[Attempt], present: RunFact) -> list[Continuation]:
    """Return where a run continued, oldest first.

    An attempt that read no snapshot trained nothing; it belongs to the next one that did.

    Args:
        past: Its attempts that have ended, oldest first.
        present: The present attempt, which is the last one.
    """
    found, before = list[Continuation](), list[Attempt]()
    following = [(one.resumed_at, one.ranks) for one in past[1:]]
    for attempt, (iteration, ranks) in zip(
        past, [*following, (present.resumed_at, present.ranks)], strict=False
    ):
        before.append(attempt)
        if iteration != NONE:
            found.append(_continuation(before, iteration, ranks))
            before = []
    return found


def _continuation(before: Sequence[Attempt], iteration: int, ranks: int) -> Continuation:
    first = before[0]
    redone = max(0, max(one.iteration for one in before) - iteration)
    left = next((one.left_nodes for one in before if one.left_nodes), "")
    return Continuation(
        iteration, _cause(before), redone, first.ranks, ranks, first.last_point, left
    )


def _cause(before: Sequence[Attempt]) -> ContinuationCause:
    if not all(one.is_automatic for one in before):
        return ContinuationCause.REQUEST
    return ContinuationCause.LOSS if any(map(was_lost, before)) else ContinuationCause.MOVE


def was_lost(attempt: Attempt) -> bool:
    """Return whether an attempt lost its ranks, or failed."""
    return attempt.failed or attempt.state is RunState.LOST


def is_at_fault(deaths: Sequence[Death]) -> bool:
    """Return whether a rank ended the world by itself."""
    return any(death.is_abort for death in deaths[:1])


def has_left_unasked(endings: Sequence[Ending], *, is_asked: bool) -> bool:
    """Return whether ranks left at a boundary for another world, as an earlier supervisor asked.

    A stop by the user or a limit is known from the store, and an interrupt has an error.

    Args:
        is_asked: Whether this supervisor has asked them to leave.
    """
    stopped = [ending for ending in endings if ending.state == "stopped"]
    return bool(stopped) and not is_asked and not any(ending.error for ending in stopped)


def loss(death: Death | None, reason: str) -> str:
    """Return how the run lost its world, the beginning of a sentence."""
    if death is None:
        return f"The world of this run ended ({reason})"
    return f"Rank {death.rank} on {death.host} was lost ({death.cause})"


def lost_steps(past: Sequence[Attempt], resumed_at: int, redone: Mapping[int, float]) -> str:
    """Return what is done again: ``Lost 41 steps (6.2 s).``; empty for nothing, or if unknown.

    What the ranks had done after their last report died with them, so a loss says "at least".

    Args:
        past: The attempts before the one that does it again, oldest first.
        resumed_at: The iteration of the snapshot that this one has read; -1 until then.
        redone: How long the steps took that are done again, by the number of their attempt.
    """
    before = _since_read(past)
    lost = max((one.iteration for one in before), default=0) - resumed_at
    if lost <= 0 or resumed_at == NONE:
        return ""
    least = "at least " if any(one.state is RunState.LOST for one in before) else ""
    seconds = sum(redone.get(one.number, 0.0) for one in before)
    took = f" ({duration(seconds)})" if seconds > 0 else ""
    return f"Lost {least}{count(lost, 'step')}{took}."


def why_continued(
    past: Sequence[Attempt],
    ranks: int,
    *,
    restarts: bool,
    resumed_at: int,
    redone: Mapping[int, float],
) -> str:
    """Return why the present attempt was begun, and from where; empty for the first one.

    Args:
        ranks: Its world size.
        restarts: Whether it is of a script that loads its own state.
        resumed_at: The iteration of the snapshot that it has read; -1 until it has read one.
        redone: See ``lost_steps``.
    """
    last = past[-1] if past else None
    if last is None:
        return ""
    cause = last.message if last.is_automatic else ""
    if restarts:
        again = f"The script starts again on {count(ranks, 'rank')}." if cause else ""
    elif resumed_at > 0:
        again = f"Continued from iteration {resumed_at:,}."
    elif last.snapshot == NONE:
        again = f"It begins again at iteration 0, on {count(ranks, 'rank')}." if cause else ""
    else:
        again = "It continues from its newest snapshot." if cause else ""
    lost = "" if restarts else lost_steps(past, resumed_at, redone)
    if not cause and not lost:
        return ""
    return " ".join(filter(None, (cause, lost, again)))


def _since_read(past: Sequence[Attempt]) -> list[Attempt]:
    """Return the last attempt that read a snapshot, or the first one, with those that follow."""
    read = [place for place, one in enumerate(past) if one.resumed_at != NONE]
    return [*past[read[-1] if read else 0 :]]


def follows(wish: RunWish, snapshot: int) -> str:
    """Return how a run that has lost or left its world continues, as a clause.

    Args:
        snapshot: The iteration of its newest snapshot; -1 for none.
    """
    if wish.restarts:
        return "the script starts again"
    if snapshot == NONE:
        return "it begins again at iteration 0, because no snapshot of it is left"
    return "it continues from its newest snapshot"


def leaves(nodes: str, *, at_epoch: bool = False, because: str = "") -> str:
    """Return that a run leaves its ranks.

    Args:
        nodes: Those that the provider takes back; empty if another size was asked for.
        at_epoch: Whether it leaves at the end of the epoch.
        because: Why no ranks follow, as a clause; empty if some do.
    """
    if because and not nodes:
        when = "epoch" if at_epoch else "iteration"
        return f"It leaves its ranks after this {when}, because {because}."
    if at_epoch:
        return "It leaves its ranks after this epoch, to continue on those of the new size."
    if not nodes:
        return "It leaves its ranks after this iteration, to continue on those of the new size."
    return f"It leaves {nodes} after this iteration, because the provider takes it back."


def has_left(ranks: int, nodes: str, because: str = "") -> str:
    """Return why a run has left its ranks, the beginning of a sentence.

    Args:
        nodes: Those that the provider takes back; empty if another size was asked for.
        because: Why no ranks follow, as a clause; empty if some do.
    """
    if nodes:
        return f"It left {nodes}, because the provider takes it back"
    if because:
        return f"It left its {count(ranks, 'rank')}, because {because}"
    return f"It moved from {count(ranks, 'rank')} to another size"


def format_stop(run: Run, iteration: int, snapshot: int, because: str) -> str:
    """Return the message of a run that was stopped.

    Args:
        iteration: Iterations that were done.
        snapshot: The iteration of its newest snapshot; -1 for none.
        because: Why, as a clause; empty if its user or a limit of the run asked for it.
    """
    at = f"Stopped at iteration {iteration:,}" if iteration or not because else "Stopped"
    if not because:
        return f"{at}."
    saved = saves_snapshots(run.wish) and snapshot != NONE
    lost = f"; {count(max(0, iteration - snapshot), 'step')} lost" if saved else ""
    return f"{at}, because {because}{lost}. {remedy(run, snapshot, '')}"


def why_stopped(message: str) -> str:
    """Return what the message of a stopped run says beside where it stopped, as sentences."""
    _, _, why = message.partition(", because ")
    return f"{why[:1].upper()}{why[1:]}"


def format_stop_in_queue(run: Run, snapshot: int = NONE, because: str = "") -> str:
    """Return the message of a run that is stopped while it waits.

    Args:
        snapshot: The iteration of its newest snapshot; -1 for none.
        because: Why, as a clause; empty if its user asked for it.
    """
    why = f", because {because}" if because else ""
    if run.fact.attempt == 1:
        return f"Stopped before it began{why}."
    again = f" {remedy(run, snapshot, '')}" if because else ""
    return f"Stopped at iteration {run.fact.iteration:,}, before it continued{why}.{again}"


def remedy(run: Run, snapshot: int, why_not: str) -> str:
    """Return what the user can do about a run that was lost, as sentences.

    Args:
        why_not: Why it does not continue by itself, or empty.
    """
    if not is_resumable(run.wish.kind):
        return f"Run the {run.wish.kind} again; no snapshot of it was saved."
    if snapshot == NONE and why_not and not run.wish.restarts:
        return f"It does not begin again by itself: {why_not}. Run the {run.wish.kind} again."
    if snapshot == NONE and not run.wish.restarts:
        return (
            f"Run the {run.wish.kind} again; no snapshot of it was saved. Loops of "
            "`workbench.elastic` save them."
        )
    acts = "start again" if run.wish.restarts else "continue"
    why = f"It does not {acts} by itself: {why_not}. " if why_not else ""
    return f"{why}Resume it with `workbench run --resume {shlex.quote(run.wish.name)}`."


def is_failure(deaths: Sequence[Death]) -> bool:
    """Return whether a lost world counts as a failure of the run: no lost node explains it."""
    return not any(death.is_lost for death in deaths)


def may_differ(kind: RunKind, ending: Ending) -> bool:
    """Return whether a run whose rank left with an error may be tried again."""
    is_raised = ending.state == "failed" and not (ending.exited or ending.gone)
    return kind is RunKind.SCRIPT and is_raised


def failures(past: Sequence[Attempt]) -> list[Attempt]:
    """Return the attempts that have failed since the user last asked for one, the newest first."""
    return [one for one in _unasked(past) if one.failed]


def _unasked(past: Sequence[Attempt]) -> list[Attempt]:
    """Return the attempts since the user last asked for one, the newest first."""
    return [*takewhile(lambda one: one.is_automatic, reversed(past))]


def why_no_retry(retries: int, past: Sequence[Attempt], iteration: int, traceback: str) -> str:
    """Return why a run that has failed is not tried again, as a clause; empty if it is.

    Args:
        retries: How often it may be.
        past: Its attempts before this one, oldest first.
        iteration: Iterations that the failed rank had done.
        traceback: Of the rank that failed; empty if there is none.
    """
    failed = failures(past)
    if traceback and failed:
        before = failed[0]
        is_same = _comparable(before.error) == _comparable(traceback)
        if is_same and before.failed_at == iteration:
            return f"it failed twice at iteration {iteration:,} with the same traceback"
    if len(failed) < retries:
        return ""
    if not retries:
        return "no retries were asked for"
    return f"it has failed again after {len(failed)} {'retry' if len(failed) == 1 else 'retries'}"


def why_never_begun(past: Sequence[Attempt], iteration: int) -> str:
    """Return why a run whose ranks were killed does not begin again, as a clause; empty if it does.

    One kill in the first step may be an accident. After another one it is likely the program: it
    needs more memory than there is, for example.

    Args:
        past: Its attempts before this one, oldest first.
        iteration: Iterations that were done.
    """
    if iteration or any(one.iteration for one in _unasked(past)) or not failures(past):
        return ""
    return "it failed twice before its first iteration"


def why_in_vain(past: Sequence[Attempt], present: RunFact, snapshot: int) -> str:
    """Return why a run that has lost its nodes does not continue, as a clause; empty if it does.

    Args:
        past: Its attempts before the present one, oldest first.
        snapshot: The iteration of its newest snapshot; -1 for none.
    """
    if has_saved(present.attempt, present.resumed_at, snapshot):
        return ""
    streak = takewhile(lambda one: one.is_automatic and not one.has_saved, reversed(past))
    vain = sum(one.state is RunState.LOST and not one.failed for one in streak)
    if vain < MOST_VAIN:
        return ""
    return f"it was lost {vain + 1} times in a row before it had completed a snapshot"


def retry(past: Sequence[Attempt], retries: int) -> str:
    """Return which retry follows a failure, as a sentence."""
    return f"Retry {len(failures(past)) + 1} of {retries}."


def _comparable(traceback: str) -> str:
    """Return a traceback without addresses, which differ between processes."""
    return _ADDRESS.sub("0x", traceback)
