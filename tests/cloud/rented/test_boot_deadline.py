"""When a node without a lease ends itself after its boot, as its shell program decides it.

The supervisor must log in within ``BOOT_SECONDS`` of the boot. From the first login on, it leaves
signs of life on the node, also while a long installation runs: the node ends when no sign has come
for the duration of a lease. A lease takes over from the last sign. So a node that is being set up
does not end itself, and a supervisor that dies leaves no node for longer than a lease.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

import pytest

from workbench.cloud.rented.userdata import BOOT_SECONDS
from workbench.core.fleet.form import LEASE_SECONDS

_SIGN = re.compile(r"([0-9]{1,12}) ([0-9]{1,12}) ([0-9]{1,12})\n?", re.ASCII)


@dataclass(frozen=True)
class BootSign:
    """A sign of life from the supervisor.

    Args:
        uptime: Whole seconds since the node's boot when it was left, by the node's own clock.
        seconds: How long it is valid.
        expires: Epoch seconds at which the node ends in any case; 0 for never.
    """

    uptime: int
    seconds: int
    expires: int = 0


def read_sign(text: str) -> BootSign | None:
    """Return the sign of life in a node's file; None for any other text."""
    found = _SIGN.fullmatch(text)
    return BootSign(*map(int, found.groups())) if found else None


def is_over(
    up: int,
    now: float,
    sign: BootSign | None,
    *,
    start: int,
    boot_seconds: float = BOOT_SECONDS,
    expires: float = 0.0,
) -> bool:
    """Return whether a node without a lease ends itself now, as ``userdata.watch`` does.

    Args:
        up: Whole seconds since the node's boot.
        now: Epoch seconds.
        sign: The last sign of life; one with a future time is ignored.
        start: Seconds from the boot to the start of the watch.
        boot_seconds: Seconds from then within which the supervisor must log in.
        expires: Epoch seconds at which it ends in any case, as known at its boot; 0 for never. The
            value in a sign is newer.
    """
    if sign is not None and sign.uptime <= up:
        start, boot_seconds, expires = sign.uptime, sign.seconds, sign.expires
    return up - start >= boot_seconds or 0 < expires <= now


def test_before_anybody_came_a_node_ends_after_the_time_from_its_boot():
    assert not is_over(1219, 0, None, start=20)
    assert is_over(1220, 0, None, start=20)


def test_a_node_that_installs_for_hours_continues_while_signs_come():
    for up in range(20, 10_000, 60):
        assert not is_over(up + 59, 0, BootSign(up, int(LEASE_SECONDS)), start=20)


def test_without_signs_it_ends_as_soon_as_a_lease_would():
    sign = BootSign(5_000, 60)

    assert [is_over(up, 0, sign, start=20) for up in (5_059, 5_060)] == [False, True]


def test_a_sign_of_the_future_counts_for_nothing():
    assert is_over(1300, 0, BootSign(9_999_999, 60), start=20)


@pytest.mark.parametrize(("sign", "over"), [(None, True), (BootSign(50, 600, 2_000), False)])
def test_a_person_may_let_it_live_longer_than_was_known_at_its_boot(sign, over):
    assert is_over(60, 1_500, sign, start=20, expires=1_000) is over
    assert is_over(60, 2_000, sign, start=20, expires=1_000)


@pytest.mark.parametrize("text", ["", "1 2", "1 2 x", "-1 2 3", "1 2 3 4", "1 2 3\n4 5 6\n"])
def test_what_is_no_sign_is_none(text):
    assert read_sign(text) is None
    assert read_sign("12 1800 0\n") == BootSign(12, 1800, 0)
