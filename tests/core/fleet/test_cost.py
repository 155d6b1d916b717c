"""Costs are computed to the second, as the provider bills them."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from workbench.cloud.ec2.description import (
    ADDRESS_PRICE,
    MONTH_HOURS,
    ZONE_PRICE,
    extra_price,
    storage_price,
)
from workbench.core.fleet.cost import (
    HOUR,
    FleetCost,
    bill,
    charge,
    extra_charges,
    is_used_up,
    is_worth_it,
    meter_node,
    node_spent,
    ring_price,
    update_prices,
    with_traffic,
    zones_price,
)
from workbench.core.fleet.model import FleetWish, Node, NodeState, Offer

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

    assert bill(nodes) == FleetCost(2.75, 2.0)
    assert bill(nodes, budget=4.75) == FleetCost(2.75, 2.0, 2.0)
    assert bill(nodes, budget=1.0) == FleetCost(2.75, 2.0, 0.0)


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
    reported = bill([counted, free])

    assert (counted.spent, free.spent) == (pytest.approx(3.69), pytest.approx(0.09))
    assert (reported.spent, reported.traffic) == (pytest.approx(3.78), pytest.approx(0.18))


AFAR = FleetWish("ec2", settings=(("ssh_from", "auto"),))


def test_a_disk_costs_by_its_size_and_an_address_where_there_is_one() -> None:
    assert storage_price(1) * MONTH_HOURS == pytest.approx(0.08)
    assert extra_price(75, public=False) == pytest.approx(75 * 0.08 / 730)
    assert extra_price(75, public=True) - extra_price(75, public=False) == pytest.approx(0.005)


def test_disks_and_addresses_are_reported_apart() -> None:
    offer = Offer("g4dn.xlarge", "a", 0.2, 4, 16.0, extra_price=extra_price(75, public=True))

    assert extra_charges(offer, 10) == "$0.13/h for their disks"
    given = Offer(
        "g4dn.xlarge", "a", 0.2, 4, 16.0, extra_price=offer.extra_price, address_price=ADDRESS_PRICE
    )
    assert extra_charges(given, 10) == "$0.082/h for their disks and $0.05/h for public addresses"


@pytest.mark.parametrize(
    ("wish", "said"),
    [
        (FleetWish("ec2"), []),
        (FleetWish("ec2", output="results"), []),
        (AFAR, ["(snapshots) costs $0.09/GB"]),
        (replace(AFAR, output="results"), ["(results and snapshots) costs $0.09/GB"]),
        (replace(AFAR, snapshots="s3://one/there"), []),
        (FleetWish("ec2", output="s3://one/here"), ["another region it costs $0.02/GB"]),
        (FleetWish("ec2", across_zones=True), ["between zones costs $0.01/GB on each side"]),
        (FleetWish("rehearsal", output="results", across_zones=True), []),
    ],
)
def test_the_price_of_what_nodes_send_elsewhere_is_reported(wish, said) -> None:
    said = [*said, *(["VAT, and what a bucket stores, come on top"] if wish.place.is_paid else [])]

    found = wish.place.traffic_notes(wish)

    assert len(found) == len(said)
    assert all(part in sentence for part, sentence in zip(said, found, strict=True))


def test_a_ring_over_two_zones_is_billed_on_both_sides_of_both_edges() -> None:
    """ResNet-50's 102 MB over four ranks, once a second."""
    assert ring_price(ZONE_PRICE, 102e6, 1.0, 4) == pytest.approx(22.03, abs=0.01)
    assert ring_price(ZONE_PRICE, 102e6, 2.0, 4) == pytest.approx(
        ring_price(ZONE_PRICE, 102e6, 1.0, 4) / 2
    )
    assert ring_price(ZONE_PRICE, 102e6, 0.0, 4) == ring_price(ZONE_PRICE, 102e6, 1.0, 1) == 0.0


def test_what_traffic_comes_to_an_hour_is_reported_where_a_training_was_measured() -> None:
    assert zones_price(ZONE_PRICE) == "traffic between zones costs $0.01/GB on each side"
    assert zones_price(ZONE_PRICE, 22.03).endswith(
        ", an estimated $22.03/h for the latest training"
    )


@pytest.mark.parametrize(
    ("place", "ssh_from", "price"),
    [
        ("ec2", "203.0.113.7", 0.09),
        ("ec2", "10.8.0.0/16,auto", 0.09),
        ("ec2", "10.8.0.0/16", 0.0),
        ("ec2", "", 0.0),
        ("rehearsal", "203.0.113.7", 0.0),
        ("hosts", "203.0.113.7", 0.0),
    ],
)
def test_what_comes_here_from_nodes_of_ec2_is_billed_where_it_comes_through_the_internet(
    place, ssh_from, price
) -> None:
    fleet = FleetWish(place, settings=(("ssh_from", ssh_from),))

    assert fleet.place.traffic_price(fleet) == price
