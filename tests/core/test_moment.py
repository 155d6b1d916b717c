"""Due times, deadlines and the time of accounts, by two clocks."""

from __future__ import annotations

import pytest

from workbench.core.moment import (
    BELIEF_SECONDS,
    SLOWING,
    WRONG_SECONDS,
    Deadlines,
    Moment,
    Reckoning,
    deadline,
    is_due,
)

START = 1_700_000_000.0
HOUR = 3600.0


def at(seconds: float, shift: float = 0.0) -> Moment:
    """Return the moment ``seconds`` after the start, by a wall clock that was set by ``shift``."""
    return Moment(START + seconds + shift, 1000.0 + seconds)


@pytest.mark.parametrize(("now", "due"), [(5.0, False), (10.0, True), (-3600.0, True)])
def test_what_is_drawn_periodically_is_drawn_after_the_clock_was_set_back(now, due) -> None:
    assert is_due(0.0, now, 10.0) is due


def test_books_go_by_the_wall_clock_while_the_clocks_agree() -> None:
    books = Reckoning(START, 1000.0)

    assert books.at(at(60.0, 0.5)).epoch == START + 60.5


def test_books_never_go_back() -> None:
    books, seen = Reckoning(START, 1000.0), []
    for second in range(0, 40_000, 10):
        books = books.at(at(second, 0.0 if second < 100 else -HOUR))
        seen.append(books.epoch)

    assert seen == sorted(seen)
    assert books.epoch == pytest.approx(START + 39_990 - HOUR, abs=2.0)
    assert books.astray is None


def test_books_that_are_ahead_run_slower_until_they_agree() -> None:
    books = Reckoning(START, 1000.0).at(at(100.0, -HOUR))

    assert books.epoch == START + 100.0 * (1 - SLOWING)


def test_books_pass_over_a_clock_that_is_soon_put_right() -> None:
    books = Reckoning(START, 1000.0).at(at(10.0, 5 * HOUR)).at(at(400.0, 5 * HOUR))

    assert books.epoch == START + 400.0
    assert books.at(at(401.0)) == Reckoning(START + 401.0, 1401.0)


def test_books_follow_a_clock_that_stays_ahead() -> None:
    books = Reckoning(START, 1000.0).at(at(10.0, 5 * HOUR))

    later = books.at(at(10.0 + BELIEF_SECONDS, 5 * HOUR))

    assert later.epoch == START + 10.0 + BELIEF_SECONDS + 5 * HOUR


def test_books_that_are_days_ahead_are_put_back() -> None:
    shift = -2 * WRONG_SECONDS
    books = Reckoning(START, 1000.0).at(at(10.0, shift)).at(at(10.0 + BELIEF_SECONDS, shift))

    assert books.epoch == START + 10.0 + BELIEF_SECONDS + shift


@pytest.mark.parametrize("shift", [-HOUR, -100 * HOUR])
def test_a_clock_that_is_set_back_puts_no_end_off(shift: float) -> None:
    end = deadline(START + 60.0, at(0.0))

    assert not end.seen(at(59.0, shift)).has_come(at(59.0, shift))
    assert end.seen(at(60.0, shift)).has_come(at(60.0, shift))


def test_a_clock_that_jumps_forth_is_looked_at_twice() -> None:
    end = deadline(START + HOUR, at(0.0)).seen(at(10.0, 5 * HOUR))

    assert not end.has_come(at(10.0, 5 * HOUR))
    assert not end.seen(at(20.0)).has_come(at(20.0 + BELIEF_SECONDS))
    assert end.seen(at(20.0, 5 * HOUR)).has_come(at(10.0 + BELIEF_SECONDS, 5 * HOUR))


def test_a_machine_that_was_suspended_beyond_an_end_is_at_it() -> None:
    assert deadline(START + HOUR, at(0.0)).has_come(at(2 * HOUR))


def test_another_name_for_the_end_is_another_end() -> None:
    ends = Deadlines()

    assert ends.has_come("expires", START + 10.0, at(10.0))
    assert not ends.has_come("expires", START + 100.0, at(10.0))


def test_a_start_of_the_machine_with_a_clock_set_back_puts_no_end_off() -> None:
    ends = Deadlines(left={"expires": (START + HOUR, 600.0)})
    booted = Moment(START - 5 * HOUR, 3.0)

    assert not ends.has_come("expires", START + HOUR, booted)
    assert ends.has_come("expires", START + HOUR, Moment(booted.wall + 600.0, 603.0))


def test_what_is_forgotten_begins_again() -> None:
    ends = Deadlines()
    ends.has_come("a run", START + 10.0, at(0.0))

    ends.forget("a run")

    assert ends.all == {}
