"""A price above the confirmed one needs a new confirmation, or is an error."""

from __future__ import annotations

from dataclasses import replace

import pytest

from workbench.cloud.ec2.description import DISK_GIB, extra_price
from workbench.core.cluster.model import (
    ClusterFact,
    ClusterWish,
    keeps_nodes,
    time_over_message,
)
from workbench.core.cluster.spending import check_time_left, growth, needs_confirmation
from workbench.core.fleet.model import FleetWish, Needs, Node, NodeState, Offer
from workbench.errors import InputError, StateError

NOW = 1e9
BILLED = extra_price(DISK_GIB, public=True)
OFFERS = (
    Offer("g4dn.xlarge", "b", 0.19, 4, 16.0, gpus=1, network=5.0, extra_price=BILLED),
    Offer("g4dn.xlarge", "a", 0.21, 4, 16.0, gpus=1, network=5.0, extra_price=BILLED),
)
FLEET = FleetWish("ec2", nodes=2, needs=Needs(gpus=1), expires=NOW + 3600)
WISH = ClusterWish("lab", up=True, ranks=0, fleet=FLEET)
NODES = tuple(
    Node(f"i-{n}", NodeState.JOINED, type="g4dn.xlarge", zone="a", price=0.2 + BILLED)
    for n in range(2)
)


FACT = ClusterFact("lab")


def lab(**changes) -> ClusterWish:
    return replace(WISH, fleet=replace(FLEET, **changes))


def test_what_has_time_left_and_what_is_deleted_is_not_refused():
    check_time_left(WISH, FACT, NOW)
    check_time_left(lab(expires=0.0), FACT, NOW)
    check_time_left(replace(lab(expires=NOW), up=False), FACT, NOW)


@pytest.mark.parametrize("place", ["ec2", "hosts", "rehearsal"])
def test_what_would_end_at_once_is_not_started(place):
    with pytest.raises(StateError, match="time to live of cluster 'lab' is over"):
        check_time_left(lab(provider=place, expires=NOW), FACT, NOW)


def test_a_cluster_whose_time_is_over_keeps_its_nodes_definition():
    down = replace(lab(expires=NOW), up=False)
    over = replace(FACT, message=time_over_message(down))
    here = replace(down, fleet=FleetWish(expires=NOW))

    assert keeps_nodes(down, over)
    assert not keeps_nodes(down, FACT)  # its user has deleted it
    assert not keeps_nodes(here, replace(FACT, message=time_over_message(here)))
    with pytest.raises(StateError, match="its nodes were released; start them again with"):
        check_time_left(down, over, NOW)


def test_only_more_nodes_that_cost_need_a_yes():
    assert needs_confirmation(WISH, 3)
    assert not needs_confirmation(WISH, 2)
    assert not needs_confirmation(WISH, 0)
    assert needs_confirmation(lab(provider="slurm"), 3)
    assert not needs_confirmation(lab(provider="rehearsal"), 3)
    assert not needs_confirmation(lab(provider="hosts"), 3)


def test_more_nodes_cost_what_the_same_cost_where_the_others_are():
    found = growth(WISH, 4, OFFERS, NODES, 0.5)

    assert found.before == pytest.approx(0.4 + 2 * BILLED)
    assert found.price == pytest.approx(0.4 + 2 * 0.21 + 4 * BILLED)
    assert str(found) == (
        "4 nodes would cost about $0.86/h with their disks and addresses, $0.42/h now; tried "
        "first: 2 nodes of g4dn.xlarge in a, close together, for at most $0.43/h each, else it "
        "waits"
    )


def test_nodes_of_slurm_cost_core_hours():
    queued = lab(provider="slurm", needs=Needs())
    poor = replace(queued, fleet=replace(queued.fleet, budget=1.0))
    offer = Offer("main", "", 4.0, 8, 16.0, placement=False)
    node = Node("7.0", NodeState.JOINED, price=4.0)

    assert str(growth(queued, 2, [offer], [node], 2.0)) == (
        "2 nodes would cost about 8 core-hours/h, 4 core-hours/h now; tried first: 1 node of main "
        "in any zone"
    )
    with pytest.raises(StateError, match="0 core-hours of the budget of 1 core-hours are left"):
        growth(poor, 2, [offer], [node], 2.0)


def test_after_nothing_the_cheapest_is_what_counts():
    found = growth(lab(nodes=0), 1, OFFERS, (), 0.5)

    assert (found.before, found.price) == (0.0, pytest.approx(0.19 + BILLED))


def test_nodes_that_leave_are_bought_again_and_those_that_stay_are_not():
    leaving = replace(NODES[0], state=NodeState.LEAVING)

    assert growth(WISH, 3, OFFERS, (leaving, NODES[1]), 0.0).candidate.count == 2
    assert growth(WISH, 2, OFFERS, NODES, 0.0).candidate is None


def test_a_price_is_agreed_to_as_long_as_it_hardly_moves():
    found = growth(WISH, 3, OFFERS, NODES, 0.0)

    assert found.is_within(found.price)
    assert found.is_within(found.price / 1.01)
    assert not found.is_within(found.price / 1.05)


@pytest.mark.parametrize(
    ("changes", "offers", "sentence"),
    [
        (
            {"max_price": 0.6},
            OFFERS,
            r"\$0.64/h, more than the max price of \$0.60/h.*--max-price",
        ),
        ({"budget": 0.6}, OFFERS, r"\$0.10 of the budget of \$0.60 are left.*--budget"),
        (
            {},
            tuple(replace(o, quota=3) for o in OFFERS),
            "raise .* by at least 1 vCPU in",
        ),
    ],
)
def test_what_would_cost_too_much_is_refused_with_the_remedy(changes, offers, sentence):
    with pytest.raises(StateError, match=sentence):
        growth(lab(**changes), 3, offers, NODES, 0.5)


def test_where_nothing_fits_the_need_is_named():
    with pytest.raises(InputError, match="requirements has 1 GPU"):
        growth(WISH, 3, tuple(replace(o, gpus=0) for o in OFFERS), NODES, 0.0)


def test_more_nodes_are_offered_where_the_others_are_or_on_a_word_elsewhere():
    near = [replace(one, zone="c") for one in NODES]

    with pytest.raises(StateError) as refused:
        growth(WISH, 4, OFFERS, near, 0.0)

    assert str(refused.value) == (
        "c, where the other nodes are, offers nothing that fits; allow other zones with "
        "`workbench resize --nodes 4 --across-zones`, where traffic between zones costs $0.01/GB "
        "on each side."
    )
    assert growth(lab(across_zones=True), 4, OFFERS, near, 0.0).candidate.zone == "b"


def test_a_node_that_leaves_says_nothing_of_where_more_are_bought():
    leaving = [replace(one, zone="c", state=NodeState.LEAVING) for one in NODES]

    assert growth(WISH, 4, OFFERS, leaving, 0.0).candidate.zone == "b"


def test_what_other_zones_cost_is_in_the_question_and_in_the_refusal():
    near = [replace(one, zone="c") for one in NODES]

    asked = growth(lab(across_zones=True), 4, OFFERS, near, 0.0, training=22.0)
    with pytest.raises(StateError, match=r"an estimated \$22.00/h for the latest training"):
        growth(WISH, 4, OFFERS, near, 0.0, training=22.0)

    assert "traffic between zones costs $0.01/GB on each side, an estimated $22.00/h" in str(asked)
    assert "traffic" not in str(growth(WISH, 4, OFFERS, NODES, 0.0, training=22.0))
