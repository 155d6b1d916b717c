"""Costs are computed to the second, as the provider bills them."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from workbench.core.fleet.cost import (
    HOUR,
    RESERVE_SECONDS,
    FleetCost,
    bill,
    charge,
    is_used_up,
    is_worth_it,
    meter_node,
    node_spent,
    update_prices,
    with_traffic,
)
from workbench.core.fleet.model import Node, NodeState

PROFILE = settings(derandomize=True, deadline=None, max_examples=200)
FLAT = ((0.0, 3.6),)  # $0.001 a second


@pytest.mark.parametrize(
    ("seconds", "interrupted", "spent"),
    [
        (0, False, 0.060),
        (10, False, 0.060),
        (60, False, 0.060),
        (61, False, 0.061),
        (7200, False, 7.2),
        (3599, True, 0.0),
        (3600, True, 3.6),
        (3599, False, 3.599),
    ],
)
def test_a_node_costs_its_seconds_the_first_minute_whole(seconds, interrupted, spent) -> None:
    assert node_spent(
        FLAT, 1000.0, 1000.0 + seconds, interrupted=interrupted, credited=HOUR
    ) == pytest.approx(spent)


def test_what_was_not_launched_costs_nothing() -> None:
    assert node_spent(FLAT, 0.0, 5000.0, extra_price=1.0) == 0.0


def test_the_disk_is_paid_even_where_the_machine_is_credited() -> None:
    assert node_spent(
        FLAT, 10.0, 1810.0, interrupted=True, credited=HOUR, extra_price=0.02
    ) == pytest.approx(0.01)
    assert node_spent(FLAT, 10.0, 1810.0, extra_price=0.02) == pytest.approx(1.81)


def test_each_segment_of_price_is_charged_for_its_own_time() -> None:
    prices = ((100.0, 3.6), (200.0, 7.2), (300.0, 0.0))

    assert charge(prices, 150.0, 250.0) == pytest.approx(0.05 + 0.1)
    assert charge(prices, 0.0, 100.0) == pytest.approx(0.1)
    assert charge(prices, 300.0, 900.0) == 0.0
    assert charge((), 0.0, 900.0) == 0.0


def test_a_price_that_stays_makes_no_new_segment() -> None:
    prices = update_prices((), 1.0, 10.0)

    assert update_prices(prices, 1.0, 20.0) == ((10.0, 1.0),)
    assert update_prices(prices, 2.0, 20.0) == ((10.0, 1.0), (20.0, 2.0))
    assert update_prices(prices, 2.0, 10.0) == ((10.0, 2.0),)


moments = st.floats(1.0, 1e6)
segments = st.lists(
    st.tuples(moments, st.floats(0, 50)), min_size=1, max_size=6, unique_by=lambda s: s[0]
).map(lambda rows: tuple(sorted(rows)))


@PROFILE
@given(segments, st.tuples(moments, moments, moments).map(sorted))
def test_a_time_costs_what_its_parts_cost(prices, times) -> None:
    start, middle, end = times

    whole = charge(prices, start, end)

    assert whole == pytest.approx(charge(prices, start, middle) + charge(prices, middle, end))
    dearest = max(price for _, price in prices)
    assert 0 <= whole <= dearest * (end - start) / 3600 * (1 + 1e-9) + 1e-9


@PROFILE
@given(segments, moments, st.floats(0, 1e5), st.floats(0, 1e5))
def test_money_once_spent_never_comes_back_but_by_credit(prices, launched, first, more) -> None:
    before = node_spent(prices, launched, launched + first, extra_price=0.01)
    after = node_spent(prices, launched, launched + first + more, extra_price=0.01)

    assert after >= before
    assert (
        node_spent(
            prices, launched, launched + first, interrupted=True, credited=HOUR, extra_price=0.01
        )
        <= before
    )


def test_a_node_has_its_price_until_it_is_gone() -> None:
    node = Node("i-1", NodeState.JOINED, launched=1000.0)
    gone = Node("i-1", NodeState.GONE, launched=1000.0, ended=2000.0)

    running = meter_node(replace(node, extra_price=0.36), FLAT, 4600.0)
    ended = meter_node(gone, FLAT, 99999.0)

    assert (running.spent, running.price) == (pytest.approx(3.6 + 0.36), pytest.approx(3.96))
    assert (ended.spent, ended.price) == (pytest.approx(1.0), 0.0)


def test_a_bill_adds_up_all_nodes_that_ever_were() -> None:
    nodes = [
        Node("i-1", NodeState.JOINED, price=1.0, spent=2.0),
        Node("i-2", NodeState.BOOTING, price=1.0, spent=0.5),
        Node("i-3", NodeState.GONE, price=1.0, spent=0.25),
    ]

    assert bill(nodes, now=0.0) == FleetCost(2.75, 2.0)
    assert bill(nodes, budget=4.75, now=0.0) == FleetCost(2.75, 2.0, 2.0, 3600 - RESERVE_SECONDS)
    assert bill(nodes, budget=4.75, expires=60.0, now=50.0) == FleetCost(2.75, 2.0, 2.0, 10.0)
    assert bill(nodes, budget=1.0, now=0.0) == FleetCost(2.75, 2.0, 0.0, 0.0)
    assert bill([], expires=60.0, now=99.0) == FleetCost(0.0, 0.0, None, 0.0)


@PROFILE
@given(st.floats(0, 100), st.floats(0.01, 100), st.floats(0.01, 100))
def test_what_is_worth_its_start_is_not_used_up_at_once(spent, price, budget) -> None:
    assert not (is_worth_it(spent, price, budget) and is_used_up(spent, price, budget))


def test_without_a_budget_nothing_is_used_up() -> None:
    assert not is_used_up(1e9, 1e9, 0.0)
    assert is_worth_it(1e9, 1e9, 0.0)


def test_a_bill_says_itself_in_one_line() -> None:
    assert repr(FleetCost(1.234, 0.3)) == "<FleetCost $1.23, $0.30/h>"


def test_traffic_is_in_what_a_node_cost_also_where_the_machine_was_free() -> None:
    node = with_traffic(Node("i-1", NodeState.JOINED, launched=10.0, spent=0.5), 0.09)
    assert (node.spent, node.traffic) == (pytest.approx(0.59), 0.09)

    counted = meter_node(node, FLAT, 10.0 + HOUR)
    free = meter_node(
        replace(node, state=NodeState.GONE, ended=1810.0),
        FLAT,
        1810.0,
        interrupted=True,
        credited=HOUR,
    )
    reported = bill([counted, free], now=0.0)

    assert (counted.spent, free.spent) == (pytest.approx(3.69), pytest.approx(0.09))
    assert (reported.spent, reported.traffic) == (pytest.approx(3.78), pytest.approx(0.18))
