"""What costs more than a person has said yes to is asked about, or refused."""

from __future__ import annotations

from dataclasses import replace

import pytest

from workbench.core.cluster import ClusterWish
from workbench.core.cost import extra_price
from workbench.core.fleet import FleetWish, Needs, Node, NodeState, Offer, Place
from workbench.core.growth import growth, needs_a_yes, refuse_unasked
from workbench.errors import InputError, StateError

NOW = 1e9
DISK = extra_price(Place.EC2)
OFFERS = (
    Offer("g4dn.xlarge", "b", 0.19, 4, 16.0, gpus=1, network=5.0),
    Offer("g4dn.xlarge", "a", 0.21, 4, 16.0, gpus=1, network=5.0),
)
FLEET = FleetWish(Place.EC2, nodes=2, needs=Needs(gpus=1), expires=NOW + 3600)
WISH = ClusterWish("lab", up=True, ranks=0, fleet=FLEET)
NODES = tuple(
    Node(f"i-{n}", NodeState.JOINED, type="g4dn.xlarge", zone="a", price=0.2 + DISK)
    for n in range(2)
)


def lab(**changes) -> ClusterWish:
    return replace(WISH, fleet=replace(FLEET, **changes))


def test_what_is_up_and_what_is_free_goes_on_unasked():
    refuse_unasked(WISH, NOW)
    for place in (Place.LOCAL, Place.HOSTS, Place.FAKE):
        refuse_unasked(replace(lab(place=place), up=False), NOW)


def test_what_was_deleted_and_costs_is_not_bought_again_unasked():
    with pytest.raises(StateError, match=r"'lab' was deleted.*`workbench up --cluster lab`"):
        refuse_unasked(replace(WISH, up=False), NOW)
    with pytest.raises(StateError, match=r"`workbench up`, or %dist_cluster"):
        refuse_unasked(replace(WISH, name="default", up=False), NOW)


@pytest.mark.parametrize("place", [Place.EC2, Place.HOSTS, Place.FAKE])
def test_what_would_end_at_once_is_not_started(place):
    with pytest.raises(StateError, match="time to live of cluster 'lab' is over"):
        refuse_unasked(lab(place=place, expires=NOW), NOW)


def test_only_more_nodes_that_cost_need_a_yes():
    assert needs_a_yes(WISH, 3)
    assert not needs_a_yes(WISH, 2)
    assert not needs_a_yes(WISH, 0)
    assert not needs_a_yes(lab(place=Place.FAKE), 3)
    assert not needs_a_yes(lab(place=Place.HOSTS), 3)


def test_more_nodes_cost_what_the_same_cost_where_the_others_are():
    found = growth(WISH, 4, OFFERS, NODES, 0.5)

    assert found.before == pytest.approx(0.4 + 2 * DISK)
    assert found.price == pytest.approx(0.4 + 2 * 0.21 + 4 * DISK)
    assert str(found) == (
        "4 nodes would cost about $0.8419/h with their disks, $0.4110/h now; tried first: "
        "2 nodes of g4dn.xlarge in a, close together"
    )


def test_after_nothing_the_cheapest_is_what_counts():
    found = growth(lab(nodes=0), 1, OFFERS, (), 0.5)

    assert (found.before, found.price) == (0.0, pytest.approx(0.19 + DISK))


def test_nodes_that_leave_are_bought_anew_and_those_that_stay_are_not():
    leaving = replace(NODES[0], state=NodeState.LEAVING)

    assert growth(WISH, 3, OFFERS, (leaving, NODES[1]), 0.0).rung.count == 2
    assert growth(WISH, 2, OFFERS, NODES, 0.0).rung is None


def test_a_price_is_agreed_to_as_long_as_it_hardly_moves():
    found = growth(WISH, 3, OFFERS, NODES, 0.0)

    assert found.is_within(found.price)
    assert found.is_within(found.price / 1.01)
    assert not found.is_within(found.price / 1.05)


@pytest.mark.parametrize(
    ("changes", "offers", "sentence"),
    [
        ({"most_price": 0.6}, OFFERS, r"\$0.6264/h, more than the \$0.6/h .*--max-price"),
        ({"budget": 0.6}, OFFERS, r"\$0.10 of the budget of \$0.60 are left.*--budget"),
        ({}, tuple(replace(o, quota=3) for o in OFFERS), "Ask for 4 vCPUs"),
    ],
)
def test_what_would_cost_too_much_is_refused_with_the_remedy(changes, offers, sentence):
    with pytest.raises(StateError, match=sentence):
        growth(lab(**changes), 3, offers, NODES, 0.5)


def test_where_nothing_fits_the_need_is_named():
    with pytest.raises(InputError, match="nothing has 1 GPU"):
        growth(WISH, 3, tuple(replace(o, gpus=0) for o in OFFERS), NODES, 0.0)
