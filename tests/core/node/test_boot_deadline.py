from __future__ import annotations

import pytest

from workbench.cloud.rented.fields import LEASE_SECONDS
from workbench.core.node.boot_deadline import BootSign, is_over, read_sign


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
