"""Charges beside the machines are shown before the user confirms."""

from __future__ import annotations

from dataclasses import replace

import pytest

from workbench.cloud.ec2.description import (
    ADDRESS_PRICE,
    MONTH_HOURS,
    ZONE_PRICE,
    extra_price,
    storage_price,
)
from workbench.core.fleet.cost import extra_charges, ring_price, zones_price
from workbench.core.fleet.model import FleetWish, Offer

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
