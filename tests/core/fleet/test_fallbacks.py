"""Candidates go from the best to the least acceptable one, without repetition."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from workbench.core.fleet.fallbacks import (
    DEAREST,
    MOST_TYPES,
    Candidate,
    build_token,
    candidate_of,
    candidates,
    dearest,
    purchase,
)
from workbench.core.fleet.model import FleetWish, Needs, Offer
from workbench.core.fleet.offers import fits

PROFILE = settings(derandomize=True, deadline=None, max_examples=200)
BEST = Offer("g4dn.xlarge", "a", 0.2, 4, 16.0, gpus=1, network=5.0)
OTHER = replace(BEST, type="g5.xlarge", price=0.3)
ELSEWHERE = replace(BEST, zone="b", price=0.25)
DEAR = replace(BEST, type="g6e.xlarge", price=0.9)
STRANGE = replace(BEST, type="p9.xlarge", price=0.21, quota_name="P9")
ALL = (STRANGE, DEAR, ELSEWHERE, OTHER, BEST)
GPU = Needs(gpus=1)


def test_it_goes_from_close_together_to_fewer_elsewhere() -> None:
    assert candidates(GPU, ALL, 4, 2) == (
        Candidate(4, 4, ("g4dn.xlarge",), "a", placement=True),
        Candidate(4, 4, ("g4dn.xlarge",), "a"),
        Candidate(4, 4, ("g4dn.xlarge", "g5.xlarge"), "a"),
        Candidate(4, 4, ("g4dn.xlarge",), "b"),
        Candidate(4, 2, ("g4dn.xlarge", "g5.xlarge"), "a"),
        Candidate(4, 2, ("g4dn.xlarge",), "b"),
    )


def test_where_fewer_are_not_enough_they_are_not_tried() -> None:
    assert {candidate.min_nodes for candidate in candidates(GPU, ALL, 4, 4)} == {4}


def test_no_node_costs_more_than_was_confirmed() -> None:
    billed = [replace(offer, extra_price=0.01) for offer in ALL]

    tried = candidates(GPU, billed, 4, 2, most=0.26)

    assert {type_ for candidate in tried for type_ in candidate.types} == {"g4dn.xlarge"}
    assert {round(candidate.max_price, 6) for candidate in tried} == {0.25}
    assert {c.max_price for c in candidates(GPU, ALL, 4, 4, most=0.3, room=0.8)} == {0.2}
    assert candidates(GPU, ALL, 4, 2, most=0.19) == ()


def test_a_confirmed_price_limits_each_node_unless_the_user_has_set_a_limit() -> None:
    assert dearest(FleetWish("ec2"), 0.21).most_price == pytest.approx(0.42)
    assert dearest(FleetWish("ec2", max_price=1.0), 0.21).most_price == 0.0


def test_a_single_node_is_in_no_placement_group() -> None:
    assert not any(candidate.placement for candidate in candidates(GPU, ALL, 1, 1, placement=False))


def test_where_nodes_are_already_the_same_is_tried_first() -> None:
    first = candidates(GPU, ALL, 1, 1, near=("g5.xlarge", "a"), placement=False)[0]

    assert first == Candidate(1, 1, ("g5.xlarge",), "a")
    assert candidates(GPU, ALL, 1, 1, near=("gone", "b"), placement=False)[0].zone == "b"


def test_beside_nodes_that_are_up_only_their_zone_is_tried() -> None:
    tried = candidates(GPU, ALL, 2, 1, near=("g4dn.xlarge", "b"))

    assert {candidate.zone for candidate in tried} == {"b"}
    assert tried[0].placement
    assert candidates(GPU, [BEST], 2, 1, near=("g4dn.xlarge", "b")) == ()


def test_with_a_persons_word_other_zones_are_tried_after_that_of_the_nodes() -> None:
    tried = candidates(GPU, ALL, 2, 2, near=("g4dn.xlarge", "b"), across_zones=True)

    assert list(dict.fromkeys(candidate.zone for candidate in tried)) == ["b", "a"]


def test_a_whole_new_fleet_may_take_any_zone() -> None:
    assert {candidate.zone for candidate in candidates(GPU, ALL, 4, 2)} == {"a", "b"}


@pytest.mark.parametrize(
    ("room", "counts"),
    [(0.8, {4}), (0.79, {3}), (0.4, {2}), (0.39, set())],
)
def test_as_many_are_asked_for_as_may_be_paid(room, counts) -> None:
    tried = candidates(GPU, [BEST], 4, 2, room=room)

    assert {candidate.count for candidate in tried} == counts
    assert all(candidate.max_price * candidate.count == pytest.approx(room) for candidate in tried)


def test_disks_and_addresses_are_paid_from_what_all_may_cost() -> None:
    billed = [replace(BEST, extra_price=0.01)]

    assert {candidate.count for candidate in candidates(GPU, billed, 4, 2, room=0.8)} == {3}
    assert {candidate.count for candidate in candidates(GPU, billed, 4, 2, room=0.84)} == {4}
    assert candidates(GPU, billed, 4, 2, room=0.84)[0].max_price == pytest.approx(0.2)
    assert candidates(GPU, billed, 4, 2)[0].max_price == 0.0


def test_of_types_with_disks_of_two_sizes_the_larger_disk_bounds_what_one_may_cost() -> None:
    billed = [replace(BEST, extra_price=0.01), replace(OTHER, extra_price=0.03)]

    mixed = next(
        candidate
        for candidate in candidates(GPU, billed, 2, 2, room=1.0)
        if len(candidate.types) == 2
    )

    assert mixed.max_price == pytest.approx(0.5 - 0.03)


@pytest.mark.parametrize(("quota", "counts"), [(None, {4}), (16, {4}), (15, {3}), (7, set())])
def test_as_many_are_asked_for_as_the_quota_allows(quota, counts) -> None:
    tried = candidates(GPU, [replace(BEST, quota=quota)], 4, 2)

    assert {candidate.count for candidate in tried} == counts


def test_nothing_is_tried_where_nothing_fits() -> None:
    assert candidates(Needs(gpus=8), ALL, 4, 2) == ()


def test_a_candidate_says_what_it_tries() -> None:
    assert str(Candidate(4, 2, ("a", "b"), "z")) == "2 to 4 nodes of a or b in z"
    assert (
        str(Candidate(1, 1, ("a",), "", placement=True))
        == "1 node of a in any zone, close together"
    )


offers = st.lists(
    st.builds(
        Offer,
        st.sampled_from(["c5.large", "c6i.large", "m5.large", "g5.xlarge", "p4d.24xlarge"]),
        st.sampled_from("abcdef"),
        st.floats(0.01, 10),
        st.integers(1, 96),
        st.floats(1, 512),
        gpus=st.integers(0, 2),
        network=st.floats(0, 400),
        quota=st.one_of(st.none(), st.integers(0, 400)),
    ),
    max_size=12,
    unique_by=lambda offer: (offer.type, offer.zone),
)


@PROFILE
@given(offers, st.integers(1, 12), st.integers(1, 12), st.one_of(st.just(0.0), st.floats(0.1, 20)))
def test_every_candidate_is_new_and_within_price_quota_and_size(listed, count, least, room) -> None:
    least = min(count, least)

    tried = candidates(GPU, listed, count, least, room=room)

    assert len(set(tried)) == len(tried)
    for candidate in tried:
        assert least <= candidate.min_nodes <= candidate.count <= count
        assert 0 < len(candidate.types) <= MOST_TYPES
        chosen = [o for o in listed if o.type in candidate.types and o.zone == candidate.zone]
        assert len(chosen) == len(candidate.types)
        assert all(fits(GPU, offer) for offer in chosen)
        assert all(
            offer.quota is None or offer.vcpus * candidate.count <= offer.quota for offer in chosen
        )
        if room:
            assert all(offer.price * candidate.count <= room * (1 + 1e-6) for offer in chosen)
        assert max(o.price for o in chosen) <= DEAREST * max(o.price for o in listed)


@PROFILE
@given(offers, st.integers(1, 4), st.sampled_from("abcdef"), st.booleans())
def test_what_joins_nodes_is_in_their_zone_unless_the_word_was_given(
    listed, count, zone, word
) -> None:
    near = ("c5.large", zone)

    tried = candidates(Needs(), listed, count, 1, near=near, across_zones=word)

    here = [offer for offer in listed if word or offer.zone == zone]
    assert all(candidate.zone == zone or word for candidate in tried)
    assert tried == candidates(Needs(), here, count, 1, near=near, across_zones=True)


def test_a_token_is_another_for_every_part_and_always_the_same() -> None:
    parts = [
        ("lab", "1", 0, 2),
        ("lab", "1", 0, 3),
        ("lab", "1", 1, 2),
        ("lab", "2", 0, 2),
        ("lab2", "1", 0, 2),
        ("lab", "11", 0, 2),
        ("lab\n1", "1", 0, 2),
    ]

    tokens = {build_token(*part) for part in parts}

    assert len(tokens) == len(parts)
    assert tokens == {build_token(*part) for part in parts}
    assert all(len(word) == 64 and word.isascii() for word in tokens)


def test_a_purchase_is_its_candidate_and_its_token() -> None:
    candidate = Candidate(4, 2, ("a", "b"), "z", max_price=0.3)

    bought = purchase("lab", "1", 5, candidate)

    assert candidate_of(bought) == candidate
    assert (bought.cluster, bought.number) == ("lab", 5)
    assert bought.token == build_token("lab", "1", 5, 4)
