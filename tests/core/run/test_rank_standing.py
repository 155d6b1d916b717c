"""What ranks say of themselves is put together: who waits, who failed, which boundary is ahead."""

from __future__ import annotations

from dataclasses import replace

import pytest

from workbench.core.run.rank_protocol import Ending
from workbench.core.run.rank_standing import (
    DEAF_SECONDS,
    EXIT_SECONDS,
    IDLE_PAUSE_SECONDS,
    TELLING_MOST_SECONDS,
    TELLING_SECONDS,
    RankFailure,
    RankStanding,
    are_in,
    boundary_ahead,
    deaf,
    first_failure,
    ranks_text,
    stuck,
)

WORKING = RankStanding(begun=True)
STUCK = RankStanding(begun=True, call="Allreduce", waiting=9.0)
BOOM = Ending("failed", 3, "ValueError: boom", "Traceback …\nValueError: boom")
ECHO = Ending("failed", 3, "MPI_ERR_REVOKED", "Traceback …\nMPI_ERR_REVOKED", secondary=True)
DONE = Ending("finished", 9)
INTERRUPTED = Ending("stopped", 9, "interrupted", "KeyboardInterrupt")
EXITED = Ending("finished", 3, exited=True)


def left(ending: Ending) -> RankStanding:
    return RankStanding(begun=True, ending=ending)


def failure(*ranks: RankStanding, is_leaving: bool = False, is_freed: bool = False):
    return first_failure(ranks, is_leaving=is_leaving, is_freed=is_freed)


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
    assert deaf((rank, WORKING), 100.5 + DEAF_SECONDS) == found


@pytest.mark.parametrize(
    ("ranks", "found"),
    [
        ((WORKING, STUCK), True),
        ((WORKING, RankStanding()), False),
        ((WORKING, left(DONE)), False),
        ((replace(WORKING, left=True),), False),
    ],
)
def test_ranks_are_in_a_run_that_they_have_begun_and_not_left(ranks, found) -> None:
    assert are_in(ranks) is found


# -- which rank failed


def test_the_error_of_a_rank_comes_before_the_echo_of_it() -> None:
    found = failure(left(ECHO), left(BOOM), left(ECHO))

    assert found == RankFailure(1, BOOM.error, BOOM.traceback)


def test_an_echo_alone_waits_for_the_error_that_it_echoes() -> None:
    assert failure(left(ECHO), WORKING) is None


def test_an_echo_without_its_error_is_shown_when_all_have_left() -> None:
    assert failure(left(ECHO), left(ECHO)) == RankFailure(0, ECHO.error, ECHO.traceback)


@pytest.mark.parametrize("other", [INTERRUPTED, DONE, ECHO], ids=["stopped", "finished", "freed"])
def test_the_echo_of_a_stop_is_no_failure(other) -> None:
    assert failure(left(ECHO), left(other), is_leaving=True, is_freed=True) is None


def test_a_rank_that_exits_while_another_waits_for_it_has_failed() -> None:
    waiting = RankStanding(begun=True, call="Barrier", waiting=EXIT_SECONDS)
    error = "left by sys.exit() while rank 1 waited for it in Barrier"

    assert failure(left(EXITED), waiting) == RankFailure(0, error, f"SystemExit: {error}")
    assert failure(left(EXITED), waiting, is_leaving=True) is None


@pytest.mark.parametrize(
    "ranks",
    [
        (left(EXITED), RankStanding(begun=True, call="Barrier", waiting=EXIT_SECONDS / 2)),
        (left(EXITED), RankStanding(begun=True, call="", waiting=EXIT_SECONDS * 9)),
        (left(EXITED), left(EXITED)),
        (left(DONE), STUCK),
    ],
    ids=["briefly", "computes", "all", "finished"],
)
def test_a_rank_may_exit_where_no_other_waits_for_it(ranks) -> None:
    assert failure(*ranks) is None


# -- which boundary, and who is left


def test_a_boundary_is_ahead_of_every_rank() -> None:
    slow = RankStanding(begun=True, boundary=10, rate=2.0, heard=100.2)
    fast = RankStanding(begun=True, boundary=17, rate=40.0, heard=100.0)

    # 17 done, 2 to spare, and what the faster one does in 0.3 s, since it was heard and asked.
    assert boundary_ahead((slow, fast), 100.0, 100.25) == 17 + 2 + 32


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

    arrival = sent + (heard - asked)

    assert boundary_ahead((rank, rank), 100.0, sent) > rate * (arrival - 90)


def test_a_rank_that_is_silent_for_long_does_not_put_the_boundary_off_for_long() -> None:
    silent = RankStanding(begun=True, boundary=10, rate=10.0, heard=50.0)

    assert boundary_ahead((silent, silent), 100.0, 100.5) == 10 + 2 + 23


def test_a_rank_that_has_left_is_waited_for_until_all_that_it_wrote_has_come() -> None:
    rank = RankStanding(begun=True, left=True, heard=99.0)
    ranks = (rank, left(DONE))

    assert stuck(ranks, 98.0, 100.0) == ()
    assert stuck(ranks, 98.0, 99.0 + TELLING_SECONDS) == (0,)
    late = 98.0 + TELLING_MOST_SECONDS
    assert stuck((replace(rank, heard=late), left(DONE)), 98.0, late) == (0,)


@pytest.mark.parametrize(("ranks", "text"), [([3], "rank 3"), ([0, 2], "ranks 0, 2")])
def test_ranks_are_named_in_plain_words(ranks, text) -> None:
    assert ranks_text(ranks) == text
