"""Ranks count boundaries, and stop at the requested one."""

from __future__ import annotations

import signal
import time

import pytest

from workbench.engine.boundary import Boundaries, RunStopped


def test_nothing_is_due_until_someone_asks() -> None:
    boundaries = Boundaries()

    for _ in range(3):
        boundaries.passed()
        boundaries.check()

    assert boundaries.count == 3
    assert not boundaries.due


def test_a_rank_leaves_at_the_boundary_that_was_named_and_not_before() -> None:
    boundaries = Boundaries()
    boundaries.stop_at(2)

    boundaries.passed()
    boundaries.check()
    boundaries.passed()

    with pytest.raises(RunStopped, match="stopped at boundary 2"):
        boundaries.check()


def test_a_boundary_that_was_passed_already_means_the_next_check() -> None:
    boundaries = Boundaries()
    for _ in range(5):
        boundaries.passed()

    boundaries.stop_at(3)

    assert boundaries.due


def test_a_stop_passes_through_what_catches_errors() -> None:
    assert issubclass(RunStopped, KeyboardInterrupt)
    assert not issubclass(RunStopped, Exception)


def test_the_rate_is_boundaries_a_second_since_it_was_last_asked() -> None:
    boundaries = Boundaries()
    for _ in range(50):
        boundaries.passed()
    time.sleep(0.25)

    rate = boundaries.measure()

    assert 0 < rate <= 50 / 0.25
    assert boundaries.measure() == rate  # too soon to say anything new


def test_the_rate_is_known_from_the_first_boundaries_on() -> None:
    boundaries = Boundaries()
    began = time.monotonic()
    for _ in range(50):
        boundaries.passed()

    assert boundaries.measure() >= 50 / (time.monotonic() - began + 0.01)


def at_its_boundary(*, asks: bool = True) -> Boundaries:
    boundaries = Boundaries()
    boundaries.asks_script = asks
    boundaries.passed()
    boundaries.stop_at(1)
    return boundaries


def test_a_script_that_listens_to_sigterm_gets_it_once_and_continues(monkeypatch) -> None:
    heard = list[int]()
    monkeypatch.setattr(signal, "getsignal", lambda _: heard.append)
    monkeypatch.setattr(signal, "raise_signal", heard.append)
    boundaries = at_its_boundary()

    boundaries.check()
    boundaries.check()

    assert heard == [signal.SIGTERM]
    assert boundaries.was_asked


@pytest.mark.parametrize(("asks", "answers"), [(False, True), (True, False)])
def test_a_script_that_saves_nothing_leaves_at_once(asks, answers) -> None:
    boundaries = at_its_boundary(asks=asks)
    boundaries.ask = lambda: answers

    with pytest.raises(RunStopped):
        boundaries.check()

    assert not boundaries.was_asked


def test_a_script_that_hears_no_signal_leaves_at_once() -> None:
    before = signal.signal(signal.SIGTERM, signal.SIG_DFL)  # another test may have set one
    try:
        with pytest.raises(RunStopped):
            at_its_boundary().check()
    finally:
        signal.signal(signal.SIGTERM, before)
