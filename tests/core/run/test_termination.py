"""A run leaves its ranks step by step: by request, interruption, recovery, or with its world."""

from __future__ import annotations

from dataclasses import replace

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from workbench.core.run.rank_protocol import Ending
from workbench.core.run.termination import (
    DEAF_SECONDS,
    EXIT_SECONDS,
    FREE_SECONDS,
    IDLE_PAUSE_SECONDS,
    INTERRUPT_SECONDS,
    PULSE_PATIENCE,
    SETTLE_SECONDS,
    Active,
    AskPulses,
    Cancel,
    Fail,
    Free,
    GiveUpWorld,
    RankStanding,
    Recover,
    ReleaseWorld,
    SendStop,
    next_steps,
    ranks_text,
)

PROFILE = settings(derandomize=True, deadline=None, max_examples=200)
WORKING = RankStanding(begun=True)
STUCK = RankStanding(begun=True, call="Allreduce", waiting=9.0)
BOOM = Ending("failed", 3, "ValueError: boom", "Traceback …\nValueError: boom")
ECHO = Ending("failed", 3, "MPI_ERR_REVOKED", "Traceback …\nMPI_ERR_REVOKED", secondary=True)
DONE = Ending("finished", 9)
STOPPED = Ending("stopped", 9)
INTERRUPTED = Ending("stopped", 9, "interrupted", "KeyboardInterrupt")
EXITED = Ending("finished", 3, exited=True)
GONE = Ending("failed", 3, "it left by itself with exit status 0", "Traceback …", gone=True)


def left(ending: Ending) -> RankStanding:
    return RankStanding(begun=True, ending=ending)


def active(*ranks: RankStanding, **changes) -> Active:
    return replace(Active("run", ranks, grace=5.0, fault_tolerant=True), **changes)


BOOM_FAILS = Fail(1, BOOM.error, BOOM.traceback)


# -- a rank does not begin


def idle_from(first: float, last: float, step: float = 1.0) -> RankStanding:
    rank = RankStanding()
    while first <= last:
        rank, first = rank.idle_at(first), first + step
    return rank


@pytest.mark.parametrize(
    ("rank", "found"),
    [
        (idle_from(100.0, 100.0 + DEAF_SECONDS), (0,)),
        (idle_from(100.0, 99.0 + DEAF_SECONDS), ()),
        (replace(idle_from(100.0, 100.0 + DEAF_SECONDS), begun=True), ()),
        (idle_from(90.0, 100.0), ()),  # it is in a cell of %%px since, and says nothing
        (idle_from(80.0, 100.0 + DEAF_SECONDS, IDLE_PAUSE_SECONDS + 1), ()),
        (RankStanding(), ()),
    ],
)
def test_a_rank_is_deaf_if_it_is_idle_for_long_and_does_not_begin(
    rank: RankStanding, found: tuple[int, ...]
) -> None:
    assert active(rank, WORKING).deaf(100.5 + DEAF_SECONDS) == found


# -- a rank fails


def test_nothing_is_done_while_all_goes_well() -> None:
    assert next_steps(active(WORKING, STUCK), 100.0) == []


def test_a_rank_that_raises_is_reported_at_once() -> None:
    assert next_steps(active(WORKING, left(BOOM)), 100.0) == [BOOM_FAILS]


@pytest.mark.parametrize(
    ("after", "steps"),
    [(SETTLE_SECONDS / 2, []), (SETTLE_SECONDS + 0.01, [Free((0, 2))])],
)
def test_the_others_may_end_by_themselves_for_a_moment(after, steps) -> None:
    run = active(WORKING, left(BOOM), STUCK, failed=100.0)

    assert next_steps(run, 100.0 + after) == steps


@pytest.mark.parametrize(
    ("after", "steps"),
    [
        (FREE_SECONDS / 2, []),
        (FREE_SECONDS + 0.01, [GiveUpWorld("rank 0 did not leave the failed cell")]),
    ],
)
def test_a_rank_that_cannot_be_freed_costs_the_world(after, steps) -> None:
    run = active(WORKING, left(BOOM), failed=99.0, interrupted=100.0)

    assert next_steps(run, 100.0 + after) == steps


def test_ranks_that_all_raise_alike_need_no_recovery() -> None:
    run = active(left(BOOM), left(BOOM))

    assert next_steps(run, 100.0) == [Fail(0, BOOM.error, BOOM.traceback)]
    assert next_steps(replace(run, failed=100.0), 100.0) == [ReleaseWorld()]


@pytest.mark.parametrize("other", [GONE, DONE, BOOM], ids=["alike", "finished", "failed"])
def test_a_world_that_a_rank_left_for_good_takes_no_other_run(other) -> None:
    run = active(left(other), left(GONE), failed=100.0)

    (step,) = next_steps(run, 100.1)

    assert isinstance(step, GiveUpWorld)
    assert step.reason.endswith("left for good")


def test_ranks_that_raise_at_different_lines_may_have_messages_pending() -> None:
    other = msgspec.structs.replace(BOOM, traceback="Traceback …, another line\nValueError: boom")

    run = active(left(BOOM), left(other), failed=100.0)

    assert next_steps(run, 100.1) == [Recover()]


def test_a_rank_that_finished_beside_one_that_failed_needs_recovery() -> None:
    assert next_steps(active(left(DONE), left(BOOM), failed=100.0), 100.1) == [Recover()]


def test_the_error_of_a_rank_comes_before_the_echo_of_it() -> None:
    run = active(left(ECHO), left(BOOM), left(ECHO))

    assert next_steps(run, 100.0) == [BOOM_FAILS]


def test_an_echo_alone_waits_for_the_error_that_it_echoes() -> None:
    assert next_steps(active(left(ECHO), WORKING), 100.0) == []


def test_an_echo_without_its_error_is_reported_when_all_have_left() -> None:
    run = active(left(ECHO), left(ECHO))

    assert next_steps(run, 100.0) == [Fail(0, ECHO.error, ECHO.traceback)]
    assert next_steps(replace(run, failed=100.0), 100.0) == [Recover()]


@pytest.mark.parametrize(
    ("recovered", "steps"),
    [
        (None, []),
        (True, [ReleaseWorld()]),
        (False, [GiveUpWorld("it could not be recovered")]),
    ],
)
def test_a_world_is_released_or_given_up_as_its_recovery_went(recovered, steps) -> None:
    run = active(left(ECHO), left(BOOM), failed=99.0, recovering=100.0, recovered=recovered)

    assert next_steps(run, 101.0) == steps


def test_an_mpi_that_cannot_recover_costs_the_world() -> None:
    run = active(left(DONE), left(BOOM), failed=100.0, fault_tolerant=False)

    assert next_steps(run, 100.1) == [
        GiveUpWorld("this MPI cannot recover from a rank that left alone")
    ]


def test_an_mpi_that_cannot_recover_is_kept_when_all_failed_alike() -> None:
    run = active(left(BOOM), left(BOOM), failed=100.0, fault_tolerant=False)

    assert next_steps(run, 100.1) == [ReleaseWorld()]


# -- a rank leaves by sys.exit


def test_a_rank_that_exits_while_another_waits_for_it_has_failed() -> None:
    waiting = RankStanding(begun=True, call="Barrier", waiting=EXIT_SECONDS)
    error = "left by sys.exit() while rank 1 waited for it in Barrier"

    steps = next_steps(active(left(EXITED), waiting), 100.0)

    assert steps == [Fail(0, error, f"SystemExit: {error}")]


@pytest.mark.parametrize(
    "other",
    [
        RankStanding(begun=True, call="Barrier", waiting=EXIT_SECONDS / 2),
        RankStanding(begun=True, call="", waiting=EXIT_SECONDS * 9),
    ],
)
def test_a_rank_may_exit_before_others_that_do_not_wait_for_it(other) -> None:
    assert next_steps(active(left(EXITED), other), 100.0) == []


def test_ranks_that_all_exit_have_finished() -> None:
    assert next_steps(active(left(EXITED), left(EXITED)), 100.0) == [ReleaseWorld()]


def test_a_rank_that_finished_is_not_taken_for_one_that_exited() -> None:
    assert next_steps(active(left(DONE), STUCK), 100.0) == []


# -- a stop is wished


def test_a_run_that_no_rank_has_begun_is_cancelled() -> None:
    run = active(RankStanding(), RankStanding(), stop_wished=100.0)

    assert next_steps(run, 100.0) == [Cancel()]


def test_a_run_that_one_rank_has_begun_is_not_cancelled() -> None:
    run = active(RankStanding(), WORKING, stop_wished=100.0)

    assert next_steps(run, 100.0) == [AskPulses()]


def test_a_stop_is_sent_for_a_boundary_that_no_rank_has_passed() -> None:
    slow = RankStanding(begun=True, boundary=10, rate=2.0, heard=100.2)
    fast = RankStanding(begun=True, boundary=17, rate=40.0, heard=100.0)

    run = active(slow, fast, stop_wished=100.0, pulses_asked=100.0)

    # 17 done, 2 to spare, and what the faster one does in 0.3 s, since it was heard and asked.
    assert next_steps(run, 100.25) == [SendStop(17 + 2 + 32)]


@pytest.mark.parametrize(
    ("asked", "heard", "sent"),
    [
        pytest.param(100.02, 100.05, 100.1, id="answered-soon"),
        pytest.param(100.22, 100.45, 100.5, id="answered-late"),
        pytest.param(99.0, 99.25, 100.5, id="not-answered"),
        pytest.param(100.0 - 1e-3, 100.0 - 1e-3, 100.5, id="heard-just-before"),
    ],
)
def test_a_stop_that_takes_as_long_as_a_pulse_comes_before_its_boundary(asked, heard, sent) -> None:
    rate = 100.0
    rank = RankStanding(begun=True, boundary=int(rate * (asked - 90)), rate=rate, heard=heard)
    run = active(rank, rank, stop_wished=100.0, pulses_asked=100.0)

    (step,) = next_steps(run, sent)

    arrival = sent + (heard - asked)
    assert step.boundary > rate * (arrival - 90)


def test_a_rank_that_is_silent_for_long_does_not_put_the_stop_off_for_long() -> None:
    silent = RankStanding(begun=True, boundary=10, rate=10.0, heard=50.0)

    run = active(silent, silent, stop_wished=100.0, pulses_asked=100.0)

    assert next_steps(run, 100.5) == [SendStop(10 + 2 + 23)]


@pytest.mark.parametrize(
    ("after", "steps"),
    [(PULSE_PATIENCE - 0.1, []), (PULSE_PATIENCE, [SendStop(12)])],
)
def test_a_pulse_that_does_not_come_is_not_waited_for_long(after, steps) -> None:
    stale = RankStanding(begun=True, boundary=10, heard=98.0)

    run = active(stale, replace(WORKING, heard=100.1), stop_wished=100.0, pulses_asked=100.0)

    assert next_steps(run, 100.0 + after) == steps


def test_the_pulse_of_a_rank_that_has_left_is_not_waited_for() -> None:
    heard = RankStanding(begun=True, boundary=4, heard=100.1)

    run = active(left(DONE), heard, stop_wished=100.0, pulses_asked=100.0)

    assert next_steps(run, 100.1) == [SendStop(6)]


@pytest.mark.parametrize(("after", "steps"), [(4.9, []), (5.0, [Free((0, 1))])])
def test_ranks_that_reach_no_boundary_are_interrupted_after_the_grace(after, steps) -> None:
    run = active(WORKING, STUCK, stop_wished=100.0, pulses_asked=100.0, stop_sent=100.5)

    assert next_steps(run, 100.0 + after) == steps


def test_no_grace_means_at_once() -> None:
    run = active(WORKING, WORKING, grace=0.0, stop_wished=100.0)

    assert next_steps(run, 100.0) == [Free((0, 1))]


@pytest.mark.parametrize(
    ("after", "steps"),
    [
        (INTERRUPT_SECONDS - 0.1, []),
        (INTERRUPT_SECONDS, [GiveUpWorld("ranks 0, 1 did not stop when interrupted")]),
    ],
)
def test_ranks_that_ignore_an_interrupt_cost_the_world(after, steps) -> None:
    run = active(WORKING, WORKING, left(INTERRUPTED), stop_wished=90.0, interrupted=100.0)

    assert next_steps(run, 100.0 + after) == steps


def test_ranks_that_stopped_at_a_boundary_are_released() -> None:
    run = active(left(STOPPED), left(STOPPED), stop_wished=100.0, stop_sent=100.1)

    assert next_steps(run, 100.5) == [ReleaseWorld()]


def test_ranks_that_were_interrupted_need_recovery() -> None:
    run = active(left(INTERRUPTED), left(INTERRUPTED), stop_wished=90.0, interrupted=100.0)

    assert next_steps(run, 100.5) == [Recover()]


@pytest.mark.parametrize("other", [INTERRUPTED, DONE, ECHO], ids=["stopped", "finished", "freed"])
def test_the_echo_of_a_stop_is_no_failure(other) -> None:
    run = active(left(ECHO), left(other), stop_wished=90.0, interrupted=100.0)

    assert next_steps(run, 100.5) == [Recover()]


def test_a_rank_that_fails_while_it_stops_is_reported() -> None:
    run = active(WORKING, left(BOOM), stop_wished=100.0)

    assert next_steps(run, 100.0) == [BOOM_FAILS]


def test_a_rank_that_exits_while_the_run_stops_has_not_failed() -> None:
    run = active(left(EXITED), STUCK, stop_wished=100.0)

    assert next_steps(run, 100.0) == [AskPulses()]


endings = st.sampled_from([None, BOOM, ECHO, DONE, STOPPED, INTERRUPTED, EXITED])
standings = st.builds(
    RankStanding,
    begun=st.just(True),
    boundary=st.integers(0, 50),
    call=st.sampled_from(["", "Barrier"]),
    waiting=st.floats(0, 10),
    ending=endings,
)


def carry_out(run: Active, step: object, now: float) -> Active:
    """Note what was done, as the supervisor does."""
    match step:
        case AskPulses():
            return replace(run, pulses_asked=now)
        case SendStop():
            return replace(run, stop_sent=now)
        case Free():
            return replace(run, interrupted=now)
        case Fail():
            return replace(run, failed=now)
        case Recover():
            return replace(run, recovering=now, recovered=False)
    return run


@PROFILE
@given(st.lists(standings, min_size=1, max_size=3), st.booleans(), st.booleans())
def test_a_run_that_shall_end_ends_even_if_no_rank_does_anything(ranks, stop, capable) -> None:
    run = active(*ranks, stop_wished=float(stop), fault_tolerant=capable)
    now, seen = 1.0, []

    while now < 15.0 and not any(isinstance(s, ReleaseWorld | GiveUpWorld) for s in seen):
        for step in next_steps(run, now):
            run = carry_out(run, step, now)
            seen.append(step)
        now += 0.1

    must_end = stop or not run.remaining or run.failed
    assert any(isinstance(step, ReleaseWorld | GiveUpWorld) for step in seen) == bool(must_end)
    kinds = [type(step) for step in seen]
    assert len(kinds) == len(set(kinds))


@pytest.mark.parametrize(("ranks", "text"), [([3], "rank 3"), ([0, 2], "ranks 0, 2")])
def test_ranks_are_named_in_plain_words(ranks, text) -> None:
    assert ranks_text(ranks) == text


def test_ranks_that_have_left_are_waited_for_until_all_that_they_wrote_has_come() -> None:
    left = RankStanding(begun=True, left=True, heard=99.0)
    ended = RankStanding(begun=True, left=True, ending=Ending("stopped", 3, "interrupted"))
    stopped = Active("r", (left, ended), 5.0, True, stop_wished=1.0, interrupted=2.0)
    failed = replace(stopped, stop_wished=0.0, failed=1.0)

    for active in (stopped, failed):
        assert next_steps(active, 100.0) == []
        assert isinstance(next_steps(active, 110.0)[0], GiveUpWorld)
        heard = replace(active, ranks=(replace(left, heard=700.0), ended))
        assert isinstance(next_steps(heard, 701.0)[0], GiveUpWorld)


@pytest.mark.parametrize(
    ("active", "are_in"),
    [
        (Active("fit", (WORKING, STUCK), 10.0, fault_tolerant=True), True),
        (Active("fit", (WORKING, RankStanding()), 10.0, fault_tolerant=True), False),
        (Active("fit", (WORKING, replace(WORKING, ending=DONE)), 10.0, fault_tolerant=True), False),
        (Active("fit", (replace(WORKING, left=True),), 10.0, fault_tolerant=True), False),
        (Active("fit", (WORKING,), 10.0, fault_tolerant=True, stop_wished=1.0), False),
        (Active("fit", (WORKING,), 10.0, fault_tolerant=True, failed=1.0), False),
    ],
)
def test_ranks_are_in_a_run_that_they_have_begun_and_need_not_leave(active, are_in) -> None:
    """The supervisor of others looks often: a step to their end may be due."""
    assert active.are_in is are_in
