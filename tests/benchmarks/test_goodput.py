"""Simulated months lose nodes at the stated rate, and account for all paid time."""

from __future__ import annotations

from random import Random

import pytest

from benchmarks.goodput import HOUR, LOSS, MONTH, POLICIES, PRICE, WEATHERS, lived


@pytest.mark.parametrize("weather", WEATHERS, ids=lambda one: one.name)
def test_a_node_is_lost_at_the_stated_mean_rate(weather) -> None:
    chance, now, losses = Random(1), 0.0, 0
    while now < 20_000 * HOUR:
        now = weather.lost_at(now, chance)
        losses += 1

    assert losses / (now / HOUR) == pytest.approx(LOSS, rel=0.1)


def test_eight_nodes_keep_99_percent_of_what_is_paid_and_more_than_other_policies_do() -> None:
    months = {name: lived(policy, 8, WEATHERS[0], 3) for name, policy in POLICIES.items()}

    found = {name: month.goodput for name, month in months.items()}
    assert 0.99 <= found["workbench"] < 1
    assert found["workbench"] > found["restart all workers"] > found["end all nodes"] > 0
    # What is paid and not kept is paid once more for the same progress.
    least = PRICE * 8 * MONTH / HOUR
    for month in months.values():
        assert month.cost == pytest.approx(PRICE * month.paid / HOUR * 8 * MONTH / month.kept)
        assert month.cost > least
        assert month.days > 30
