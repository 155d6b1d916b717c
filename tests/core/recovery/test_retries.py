"""What counts as a failure of a run, and how often the run is tried again."""

from __future__ import annotations

from dataclasses import replace

import pytest

from workbench.core.cluster.generation import Death
from workbench.core.recovery.resumption import (
    MOST_VAIN,
    Attempt,
    failures,
    is_failure,
    may_differ,
    retry,
    why_in_vain,
    why_no_retry,
)
from workbench.core.run.model import RunFact, RunKind, RunState
from workbench.core.run.rank_protocol import Ending

FAILED = Attempt(
    1, 1, 2, 0.0, 9.0, RunState.FAILED, "", iteration=41, is_automatic=True, failed_at=41,
    error="at 0x7f00: IndexError",
)  # fmt: skip
PREEMPTED = replace(FAILED, state=RunState.LOST, failed_at=-1, error="")


@pytest.mark.parametrize(
    ("deaths", "counts"),
    [
        ((Death(1, "a", "killed by signal 9"),), True),
        ((Death(1, "a", "its node is gone", is_lost=True), Death(0, "b", "ended")), False),
        ((), True),
    ],
)
def test_a_lost_node_is_no_failure_of_the_run(deaths, counts) -> None:
    assert is_failure(deaths) is counts


@pytest.mark.parametrize(
    ("kind", "ending", "again"),
    [
        (RunKind.SCRIPT, Ending("failed", 41, "IndexError", "…"), True),
        (RunKind.CELL, Ending("failed", 41, "IndexError", "…"), False),
        (RunKind.SCRIPT, Ending("failed", 41, "SystemExit: 1", exited=True), False),
        (RunKind.SCRIPT, Ending("failed", 41, "MPI_Abort(1)", gone=True), False),
    ],
)
def test_an_error_is_tried_again_in_a_script_unless_it_was_meant(kind, ending, again) -> None:
    assert may_differ(kind, ending) is again


@pytest.mark.parametrize(
    ("before", "present", "snapshot", "ends"),
    [
        (MOST_VAIN - 1, RunFact("id", attempt=99, resumed_at=0), -1, False),
        (MOST_VAIN, RunFact("id", attempt=99, resumed_at=0), -1, True),
        (MOST_VAIN, RunFact("id", attempt=99), 80, True),
        (MOST_VAIN, RunFact("id", attempt=99, resumed_at=80), 80, True),
        (MOST_VAIN, RunFact("id", attempt=99, resumed_at=80), 85, False),
    ],
)
def test_a_run_outlives_a_bounded_number_of_losses_without_a_snapshot_between_them(
    before, present, snapshot, ends
) -> None:
    vain = replace(PREEMPTED, number=2)
    moved = replace(vain, state=RunState.STOPPED)
    saved = replace(PREEMPTED, number=2, resumed_at=10, snapshot=20)
    past = [vain, saved, moved, *[vain] * before]

    why = why_in_vain(past, present, snapshot)

    said = f"it was lost {before + 1} times in a row before it had completed a snapshot"
    assert why == (said if ends else "")
    assert why_in_vain([*past, replace(vain, is_automatic=False)], present, snapshot) == ""


def test_preemptions_are_not_counted() -> None:
    past = [FAILED, *[PREEMPTED] * 50, FAILED]

    assert len(failures(past)) == 2
    assert why_no_retry(3, past, 80, "") == ""
    assert retry(past, 3) == "Retry 3 of 3."


def test_after_the_last_retry_a_run_ends() -> None:
    assert why_no_retry(3, [FAILED] * 3, 80, "") == "it has failed again after 3 retries"
    assert why_no_retry(1, [FAILED], 80, "") == "it has failed again after 1 retry"
    assert why_no_retry(0, [], 80, "") == "no retries were asked for"


def test_what_the_user_has_resumed_is_counted_again_from_zero() -> None:
    past = [FAILED, FAILED, replace(FAILED, is_automatic=False), FAILED]

    assert failures(past) == [FAILED]


@pytest.mark.parametrize(
    ("iteration", "traceback", "ends"),
    [
        (41, "at 0x7fff: IndexError", True),
        (42, "at 0x7fff: IndexError", False),
        (41, "at 0x7fff: KeyError", False),
        (41, "", False),
    ],
)
def test_the_same_traceback_twice_at_the_same_step_ends_a_run(iteration, traceback, ends) -> None:
    why = why_no_retry(3, [FAILED, PREEMPTED], iteration, traceback)

    assert why == ("it failed twice at iteration 41 with the same traceback" if ends else "")
