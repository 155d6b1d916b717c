"""The controller's heartbeat continues whatever the wall clock is set to."""

from __future__ import annotations

import pytest
from tornado.ioloop import PeriodicCallback

from workbench.cluster import controller

NOW = 1_700_000_000.0


@pytest.fixture
def repeated() -> PeriodicCallback:
    """Give what is called twice a second, and was due just now."""
    made = PeriodicCallback(lambda: None, 500)
    made._next_timeout = NOW
    return made


@pytest.mark.parametrize("shift", [0.0, -3600.0, 7200.0])
def test_the_next_call_comes_within_a_period(repeated: PeriodicCallback, shift: float) -> None:
    controller._update_next(repeated, NOW + shift + 0.01)

    assert 0.0 < repeated._next_timeout - (NOW + shift + 0.01) <= 0.5


def test_calls_keep_their_rhythm_while_no_one_sets_the_clock(repeated: PeriodicCallback) -> None:
    controller._update_next(repeated, NOW + 0.2)

    assert repeated._next_timeout == NOW + 0.5
