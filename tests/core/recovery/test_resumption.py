"""Whether a run continues without being asked, and what it says of that."""

from __future__ import annotations

from dataclasses import replace

import pytest

from workbench.core.cluster.generation import Death
from workbench.core.recovery.resumption import (
    MOST_VAIN,
    NONE,
    Attempt,
    Continuation,
    ContinuationCause,
    can_begin_again,
    can_move,
    continuations,
    failures,
    follows,
    format_stop,
    format_stop_in_queue,
    has_left,
    has_saved,
    insists,
    is_at_fault,
    is_failure,
    kept_ranks,
    leaves,
    loss,
    lost_steps,
    may_begin_without,
    may_differ,
    offers_resume,
    remedy,
    retry,
    saves_snapshots,
    why_continued,
    why_in_vain,
    why_never_begun,
    why_no_retry,
    why_stopped,
)
from workbench.core.run.model import (
    Run,
    RunFact,
    RunKind,
    RunState,
    RunWish,
    check_restart,
    torchelastic_environment,
)
from workbench.core.run.rank_protocol import Ending
from workbench.core.run.run_options import RunOptions
from workbench.errors import InputError

LOST = Attempt(
    1, 1, 2, 0.0, 9.0, RunState.LOST, "Rank 1 was lost.", NONE, 161, 120, 7, is_automatic=True
)
RUN = Run(RunWish("id", "two words", RunKind.CELL, "pass"), RunFact("id"))


@pytest.mark.parametrize(
    ("deaths", "at_fault"),
    [
        ((), False),
        ((Death(1, "node-0", "ended by signal 9"),), False),
        ((Death(1, "node-0", "MPI_Abort was called on rank 1", is_abort=True),), True),
    ],
)
def test_only_an_abort_is_the_fault_of_the_program(deaths, at_fault) -> None:
    assert is_at_fault(deaths) is at_fault


@pytest.mark.parametrize(
    ("resumed_at", "redone", "text"),
    [
        (NONE, {}, ""),  # what is done again is known once a snapshot was read
        (161, {1: 6.2}, ""),
        (165, {}, ""),  # a snapshot that was complete, and not reported yet
        (160, {1: 0.2}, "Lost at least 1 step (200 ms)."),
        (120, {1: 6.2}, "Lost at least 41 steps (6.2 s)."),
        (120, {}, "Lost at least 41 steps."),
    ],
)
def test_what_is_done_again_is_counted_from_the_snapshot_that_was_read(
    resumed_at, redone, text
) -> None:
    assert lost_steps([LOST], resumed_at, redone) == text


def test_the_steps_of_attempts_that_trained_nothing_belong_to_the_one_before() -> None:
    failed = replace(LOST, state=RunState.FAILED)
    again = replace(failed, number=2, iteration=0)
    earlier = replace(failed, number=0, iteration=999)
    trained = replace(failed, resumed_at=100)

    said = lost_steps([earlier, trained, again], 120, {0: 99.0, 1: 4.0, 2: 1.0})

    assert said == "Lost 41 steps (5.0 s)."  # its ranks reported where they were when it failed


def test_the_reason_of_a_restart_stays_with_the_run() -> None:
    asked = replace(LOST, is_automatic=False)

    def said(past: list[Attempt], resumed_at: int) -> str:
        return why_continued(past, 2, restarts=False, resumed_at=resumed_at, redone={1: 6.2})

    assert said([LOST], NONE) == "Rank 1 was lost. It continues from its newest snapshot."
    assert said([LOST], 150) == (
        "Rank 1 was lost. Lost at least 11 steps (6.2 s). Continued from iteration 150."
    )
    assert said([asked], NONE) == ""
    assert said([asked], 120) == "Lost at least 41 steps (6.2 s). Continued from iteration 120."
    assert said([replace(asked, state=RunState.STOPPED, iteration=120)], 120) == ""
    assert said([], NONE) == ""


def test_a_run_without_a_snapshot_says_that_it_begins_again() -> None:
    past = replace(LOST, snapshot=NONE, iteration=3)

    assert why_continued([past], 2, restarts=False, resumed_at=NONE, redone={}) == (
        "Rank 1 was lost. It begins again at iteration 0, on 2 ranks."
    )
    assert why_continued([past], 2, restarts=False, resumed_at=0, redone={}) == (
        "Rank 1 was lost. Lost at least 3 steps. It begins again at iteration 0, on 2 ranks."
    )
    assert follows(RUN.wish, NONE) == (
        "it begins again at iteration 0, because no snapshot of it is left"
    )


@pytest.mark.parametrize(
    ("past", "snapshot", "may"),
    [
        ([LOST], 120, True),
        ([LOST], NONE, False),  # it had none, and begins again anyway
        ([replace(LOST, is_automatic=False)], 120, False),
        ([], 120, False),
    ],
)
def test_only_a_run_that_continues_by_itself_begins_again_without_its_copies(
    past, snapshot, may
) -> None:
    assert may_begin_without(past, snapshot) is may


@pytest.mark.parametrize(
    ("past", "has_begun", "begins_again"),
    [
        ([], True, True),
        ([], False, False),  # nothing shows that it can be repeated
        ([LOST], False, True),
        ([replace(LOST, snapshot=NONE)], False, False),
    ],
)
def test_a_run_whose_snapshots_are_gone_or_were_not_complete_begins_again(
    past, has_begun, begins_again
) -> None:
    def can(wish: RunWish) -> bool:
        return can_begin_again(wish, past, has_begun=has_begun)

    assert can(RUN.wish) is begins_again
    assert not can(replace(RUN.wish, kind=RunKind.SETUP))


AT_ONCE = replace(LOST, iteration=0, snapshot=NONE, failed_at=0)
"""It failed before its first iteration."""


@pytest.mark.parametrize(
    ("past", "iteration", "ends"),
    [
        ([], 0, False),
        ([AT_ONCE], 0, True),
        ([AT_ONCE], 1, False),
        ([replace(AT_ONCE, failed_at=NONE)], 0, False),  # its node was lost
        ([AT_ONCE, replace(AT_ONCE, failed_at=NONE)], 0, True),
        ([AT_ONCE, LOST], 0, False),  # it has been further
        ([LOST, AT_ONCE], 0, False),
        ([replace(AT_ONCE, is_automatic=False)], 0, False),
    ],
)
def test_a_run_that_is_killed_twice_before_its_first_iteration_ends(past, iteration, ends) -> None:
    why = why_never_begun(past, iteration)

    assert why == ("it failed twice before its first iteration" if ends else "")


@pytest.mark.parametrize(
    ("attempt", "resumed_at", "snapshot", "saved"),
    [
        (1, NONE, NONE, False),
        (1, NONE, 5, True),
        (2, NONE, 5, False),  # of the attempt before
        (2, 5, 5, False),
        (2, 0, NONE, False),
        (2, 5, 10, True),
    ],
)
def test_an_attempt_has_saved_if_there_is_a_snapshot_beyond_its_own_beginning(
    attempt, resumed_at, snapshot, saved
) -> None:
    assert has_saved(attempt, resumed_at, snapshot) is saved


def test_a_loss_names_the_rank_or_else_the_world() -> None:
    assert loss(Death(1, "node-0", "its node is gone"), "") == (
        "Rank 1 on node-0 was lost (its node is gone)"
    )
    assert loss(None, "mpiexec ended") == "The world of this run ended (mpiexec ended)"


def test_the_remedy_is_to_resume_where_a_snapshot_is() -> None:
    assert remedy(RUN, NONE, "") == (
        "Run the cell again; no snapshot of it was saved. Loops of `workbench.elastic` save them."
    )
    assert remedy(RUN, NONE, "so") == "It does not begin again by itself: so. Run the cell again."
    assert remedy(RUN, 120, "") == "Resume it with `workbench run --resume 'two words'`."
    assert remedy(RUN, 120, "so").startswith("It does not continue by itself: so. Resume it with")


def test_a_waiting_run_that_is_stopped_says_where_it_was() -> None:
    again = replace(RUN, fact=replace(RUN.fact, attempt=2, iteration=1200))

    assert format_stop_in_queue(RUN) == "Stopped before it began."
    assert format_stop_in_queue(RUN, because="so") == "Stopped before it began, because so."
    assert format_stop_in_queue(again) == "Stopped at iteration 1,200, before it continued."
    assert format_stop_in_queue(again, 1200, "so") == (
        "Stopped at iteration 1,200, before it continued, because so. Resume it with "
        "`workbench run --resume 'two words'`."
    )


@pytest.mark.parametrize(
    ("snapshot", "because", "message"),
    [
        (533, "", "Stopped at iteration 1,533."),
        (1533, "so", "Stopped at iteration 1,533, because so; 0 steps lost. Resume it with"),
        (1532, "so", "Stopped at iteration 1,533, because so; 1 step lost. Resume it with"),
        (NONE, "so", "Stopped at iteration 1,533, because so. Run the cell again; no snapshot"),
    ],
)
def test_a_planned_end_names_its_limit_and_what_is_lost(snapshot, because, message) -> None:
    found = format_stop(RUN, 1533, snapshot, because)

    assert found.startswith(message)
    assert why_stopped(found) == found.partition("because ")[2].replace("so", "So", 1)


def test_a_run_without_other_ranks_says_for_what_it_waits() -> None:
    assert has_left(3, "", "so") == "It left its 3 ranks, because so"
    assert leaves("", because="so") == "It leaves its ranks after this iteration, because so."


def test_a_run_continued_where_its_later_attempts_began() -> None:
    moved = replace(LOST, number=2, state=RunState.STOPPED, resumed_at=120, iteration=200, ranks=3)
    present = RunFact("id", attempt=3, resumed_at=200, ranks=4)

    assert continuations([LOST, moved], present) == [
        Continuation(120, ContinuationCause.LOSS, 41, 2, 3, 7),
        Continuation(200, ContinuationCause.MOVE, 0, 3, 4, 7),
    ]


def test_an_attempt_that_trained_nothing_belongs_to_the_next() -> None:
    vain = replace(LOST, number=2, ranks=1, iteration=120, last_point=9)
    present = RunFact("id", attempt=3, resumed_at=120, ranks=2)

    assert continuations([LOST, vain], present) == [
        Continuation(120, ContinuationCause.LOSS, 41, 2, 2, 7)
    ]
    assert continuations([LOST, vain], replace(present, resumed_at=NONE)) == []


def test_a_run_that_was_requested_to_continue_is_not_called_lost() -> None:
    ended = replace(LOST, is_automatic=False)
    present = RunFact("id", attempt=2, resumed_at=120, ranks=2)

    (where,) = continuations([ended], present)

    assert where.cause is ContinuationCause.REQUEST


@pytest.mark.parametrize(
    ("state", "kind", "snapshot", "is_offered"),
    [
        (RunState.STOPPED, RunKind.CELL, 0, True),
        (RunState.FAILED, RunKind.SCRIPT, 120, True),
        (RunState.LOST, RunKind.CELL, 120, True),
        (RunState.FINISHED, RunKind.CELL, 120, False),
        (RunState.RUNNING, RunKind.CELL, 120, False),
        (RunState.QUEUED, RunKind.CELL, 120, False),
        (RunState.STOPPED, RunKind.CELL, NONE, False),
        (RunState.STOPPED, RunKind.SETUP, 120, False),
    ],
)
def test_a_page_offers_to_resume_what_can_be_finished(state, kind, snapshot, is_offered) -> None:
    run = Run(RunWish("id", "fit", kind, "pass"), RunFact("id", state))

    assert offers_resume(run, snapshot) is is_offered


ON_THREE = replace(LOST, ranks=3)


@pytest.mark.parametrize(
    ("present", "ranks", "changes", "kept"),
    [
        (2, 0, {}, 3),
        (4, 0, {}, 3),
        (3, 0, {}, 0),
        (4, 3, {}, 0),
        (2, 0, {"is_asked": True}, 0),
        (2, 0, {"undivided": ""}, 0),
        (2, 0, {"past": [replace(ON_THREE, is_automatic=False)]}, 0),
    ],
    ids=["fewer", "more", "as many", "a part of more", "asked", "divided", "resumed by hand"],
)
def test_a_training_that_cannot_be_divided_keeps_its_ranks(present, ranks, changes, kept) -> None:
    given = {"past": [ON_THREE], "undivided": "Own", "is_asked": False, **changes}

    wish = RunWish("a-run", "a-run", RunKind.SCRIPT, "", options=RunOptions(ranks=ranks))

    assert kept_ranks(wish, given.pop("past"), present, **given) == kept


@pytest.mark.parametrize(
    ("asked", "resumed", "expected"),
    [
        ([True], [NONE], False),  # it continues by itself
        ([False], [NONE], True),
        ([False, True], [NONE, NONE], True),  # tried again before it has read one
        ([False, True], [NONE, 120], False),
        ([True, False], [NONE, 120], True),
        ([], [], False),
    ],
)
def test_a_run_that_its_user_resumes_needs_a_snapshot(asked, resumed, expected) -> None:
    past = [
        replace(LOST, is_automatic=automatic, resumed_at=at)
        for automatic, at in zip(asked, resumed, strict=True)
    ]

    assert insists(past) is expected


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


PLAIN = RunWish("260101-000000-aaaa", "fit", RunKind.SCRIPT, "pass", options=RunOptions(retries=5))
WISH = replace(PLAIN, options=RunOptions(retries=5, restart=True))
RANK_LOST = Attempt(1, 1, 4, 0.0, 9.0, RunState.LOST, "Rank 1 was lost.", is_automatic=True)


def test_it_moves_without_a_snapshot_and_saves_none() -> None:
    assert can_move(WISH, NONE)
    assert not saves_snapshots(WISH)
    assert not can_move(PLAIN, NONE)
    assert saves_snapshots(PLAIN)


@pytest.mark.parametrize("kind", [RunKind.CELL, RunKind.SETUP])
def test_a_cell_is_not_started_again(kind) -> None:
    with pytest.raises(InputError, match=f"--restart is for scripts .* this is a {kind}"):
        check_restart(kind, restart=True)
    check_restart(kind, restart=False)


def test_a_cell_with_the_variable_is_as_without() -> None:
    assert not replace(WISH, kind=RunKind.CELL).restarts


def test_it_has_the_variables_of_torchrun() -> None:
    run = Run(WISH, RunFact(WISH.id, attempt=3))

    assert dict(torchelastic_environment(run)) == {
        "TORCHELASTIC_RUN_ID": WISH.id,
        "TORCHELASTIC_RESTART_COUNT": "2",
        "TORCHELASTIC_MAX_RESTARTS": "5",
    }
    assert torchelastic_environment(Run(PLAIN, run.fact)) == ()


def test_it_is_said_that_it_starts_again_and_on_how_many_ranks() -> None:
    said = why_continued([RANK_LOST], 3, restarts=True, resumed_at=40, redone={})
    assert said == "Rank 1 was lost. The script starts again on 3 ranks."
    assert follows(WISH, NONE) == "the script starts again"
    assert follows(PLAIN, 40) == "it continues from its newest snapshot"


def test_what_ends_it_can_be_resumed_by_hand() -> None:
    assert remedy(Run(WISH, RunFact(WISH.id)), NONE, "no retries were asked for") == (
        "It does not start again by itself: no retries were asked for. "
        "Resume it with `workbench run --resume fit`."
    )
