"""Decide whether a run that has failed is tried again from its newest snapshot.

A run is tried again where another try may end differently: a rank's process was killed or crashed,
or a script raised. What the provider does is no failure of the run, and is never counted: a lost
node, an interruption notice, a move to another size. Losses without progress are bounded all the
same, because a program may bring its nodes down: see ``MOST_VAIN``. A cell that raises ends at
once, because its author waits for the traceback. So does what a program does on purpose:
``sys.exit``, ``os._exit`` and ``MPI_Abort``.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import takewhile

from workbench.core.cluster.generation import Death
from workbench.core.recovery.resumption import Attempt, has_saved
from workbench.core.run.model import RunFact, RunKind, RunState
from workbench.core.run.rank_protocol import Ending

MOST_VAIN = 10
"""A run survives so many losses in a row that do not count, if it has completed no snapshot between
them. Scripts that keep their own checkpoints have no such limit: theirs are not seen."""

_ADDRESS = re.compile(r"0x[0-9a-fA-F]+")


def is_failure(deaths: Sequence[Death]) -> bool:
    """Return whether a lost world counts as a failure of the run: no lost node explains it."""
    return not any(death.is_lost for death in deaths)


def may_differ(kind: RunKind, ending: Ending) -> bool:
    """Return whether a run whose rank left with an error may be tried again."""
    is_raised = ending.state == "failed" and not (ending.exited or ending.gone)
    return kind is RunKind.SCRIPT and is_raised


def failures(past: Sequence[Attempt]) -> list[Attempt]:
    """Return the attempts that have failed since the user last asked for one, the newest first."""
    return [one for one in takewhile(lambda one: one.is_automatic, reversed(past)) if one.failed]


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
