"""Offers are compared by what nodes need, by what their network sustains, and by quota."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from workbench.cloud.ec2.inventory import one_flow_gbits
from workbench.core.fleet.connection_limits import flows_for, pair_gbits
from workbench.core.fleet.model import FleetWish, Needs, Offer
from workbench.core.fleet.offers import (
    collect_needs,
    fits,
    has_cuda,
    is_driven,
    judge_quota,
    lacking_vcpus,
    rank_offers,
    refusal,
    slowing,
    total,
    why_none,
    why_not,
    without_cuda,
)

PROFILE = settings(derandomize=True, deadline=None, max_examples=200)
BURSTY = Offer("c5.large", "a", 0.035, 2, 4.0, network=0.75, burst=10.0)
STEADY = Offer("c5n.large", "a", 0.045, 2, 5.25, network=3.0, burst=25.0)
GPU = Offer(
    "g4dn.xlarge", "b", 0.2, 4, 16.0, gpus=1, gpu="T4", gpu_memory=16.0, network=5.0, burst=25.0
)
BIG = Offer(
    "p4d.24xlarge", "b", 10.0, 96, 1152.0, gpus=8, gpu="A100", gpu_memory=40.0, network=400.0
)
ALL = (BURSTY, STEADY, GPU, BIG)


@pytest.mark.parametrize(
    ("needs", "types"),
    [
        (Needs(), ["c5.large", "c5n.large", "g4dn.xlarge", "p4d.24xlarge"]),
        (Needs(gpus=1), ["g4dn.xlarge", "p4d.24xlarge"]),
        (Needs(gpus=1, gpu_memory=24), ["p4d.24xlarge"]),
        (Needs(memory=5), ["c5n.large", "g4dn.xlarge", "p4d.24xlarge"]),
        (Needs(vcpus=4), ["g4dn.xlarge", "p4d.24xlarge"]),
        (Needs(network=3), ["c5n.large", "g4dn.xlarge", "p4d.24xlarge"]),
        (Needs(types=("c5.large", "c4.large")), ["c5.large"]),
        (Needs(zones=("a",)), ["c5.large", "c5n.large"]),
        (Needs(zones=("c",)), []),
    ],
)
def test_what_fits_has_all_that_is_needed(needs, types) -> None:
    assert [offer.type for offer in ALL if fits(needs, offer)] == types


def test_a_burst_is_not_a_network() -> None:
    assert not fits(Needs(network=10), BURSTY)


def test_alone_the_price_decides_together_what_the_network_sustains() -> None:
    assert rank_offers(ALL, Needs(), 1)[0] is BURSTY
    assert rank_offers(ALL, Needs(), 4)[0] is STEADY


def test_a_huge_network_does_not_make_a_huge_price_good() -> None:
    assert rank_offers(ALL, Needs(gpus=1), 4) == (GPU, BIG)


def test_an_unknown_network_comes_after_the_known_ones() -> None:
    unknown = replace(BURSTY, network=0.0, price=0.001)

    assert rank_offers([unknown, STEADY], Needs(), 2) == (STEADY, unknown)
    assert rank_offers([unknown, STEADY], Needs(), 1) == (unknown, STEADY)


def test_what_the_quota_does_not_reach_comes_last() -> None:
    short = replace(STEADY, quota=2)

    assert rank_offers([short, BURSTY], Needs(), 2) == (BURSTY, short)


offers = st.builds(
    Offer,
    st.sampled_from(["c5.large", "m5.large", "g5.xlarge"]),
    st.sampled_from("abc"),
    st.floats(0.01, 10),
    st.integers(2, 96),
    st.floats(96, 512),
    gpus=st.integers(0, 8),
    network=st.floats(0, 400),
    quota=st.one_of(st.none(), st.integers(0, 400)),
)


@PROFILE
@given(
    st.lists(offers, max_size=6, unique_by=lambda offer: (offer.type, offer.zone)),
    st.integers(1, 12),
    st.randoms(use_true_random=False),
)
def test_the_order_in_which_offers_come_does_not_matter(listed, nodes, random) -> None:
    before = rank_offers(listed, Needs(gpus=1), nodes)
    random.shuffle(listed)

    after = rank_offers(listed, Needs(gpus=1), nodes)

    assert before == after
    assert all(offer.gpus for offer in after)


@PROFILE
@given(offers, st.integers(1, 12), st.floats(1.1, 4))
def test_the_same_for_less_or_with_more_network_is_never_worse(offer, nodes, factor) -> None:
    cheaper = replace(offer, price=offer.price / factor, zone="0")
    faster = replace(offer, network=offer.network * factor, zone="0")

    assert rank_offers([offer, cheaper], Needs(), nodes)[0] is cheaper
    assert rank_offers([offer, faster], Needs(), nodes)[0] is faster


@pytest.mark.parametrize(
    ("quota", "ok", "remedy"),
    [
        (None, None, ""),
        (12, True, ""),
        (
            11,
            False,
            'Raise "All G and VT Spot Instance Requests" by at least 1 vCPU in the',
        ),
        (11, False, "or ask for 2 nodes"),
        (4, False, "or ask for 1 node."),
        (0, False, "in the provider's console."),
    ],
)
def test_a_quota_is_compared_with_what_all_nodes_need(quota, ok, remedy) -> None:
    finding = judge_quota(
        replace(GPU, quota=quota, quota_name="All G and VT Spot Instance Requests"), 3
    )

    assert finding.ok is ok
    assert remedy in finding.remedy
    assert bool(finding.remedy) == (ok is False)


def test_vcpus_are_lacking_only_where_the_quota_is_known() -> None:
    assert [lacking_vcpus(replace(GPU, quota=q), 3) for q in (None, 5, 12, 99)] == [0, 7, 0, 0]


def test_all_nodes_cost_what_each_costs_and_its_disk() -> None:
    assert total(replace(GPU, price=0.2), 4) == pytest.approx(0.8)
    assert total(replace(GPU, price=0.2, extra_price=0.005), 4) == pytest.approx(0.82)


@pytest.mark.parametrize(
    ("needs", "words"),
    [
        (Needs(gpus=16), "requirements has 16 GPUs"),
        (Needs(gpus=1, gpu_memory=80), "requirements has 80 GiB per GPU"),
        (Needs(memory=4096), "requirements has 4096 GiB of memory"),
        (Needs(gpus=1, network=800), "requirements sustains 800 Gbit/s"),
        (Needs(types=("p2.xlarge",)), "requirements is of type p2.xlarge"),
        (Needs(gpus=1, zones=("a",)), "requirements has 1 GPU;"),
        (Needs(gpus=16, memory=4096), "meets all requirements"),
    ],
)
def test_where_nothing_fits_the_one_need_too_many_is_named(needs, words) -> None:
    sentence = why_none(FleetWish(needs=needs, region="eu-west-1"), ALL)

    assert words in sentence
    assert "in eu-west-1" in sentence


def test_where_nothing_is_on_offer_that_is_reported() -> None:
    assert why_none(FleetWish(), ()).startswith("There are no offers;")


FINE = Offer("c6a.large", "a", 0.03, 2, 4.0, network=0.781, slots=1)
T4 = Offer("g4dn.xlarge", "a", 0.2, 4, 16.0, gpus=1, gpu="T4", network=5.0)


@pytest.mark.parametrize(
    "changes",
    [
        {"vcpus": 1},
        {"memory": 3.75},
        {"slots": 5},
        {"sustained": 0.4},
        {"has_driver": False},
    ],
)
def test_what_no_one_named_has_to_carry_the_software_all_the_time(changes):
    poor = replace(FINE, **changes)

    assert fits(Needs(), FINE)
    assert not fits(Needs(), poor)
    assert fits(Needs(types=("c6a.large",)), poor)


def test_ranks_need_memory_of_their_own():
    wish = FleetWish(slots=6, needs=Needs(vcpus=2))

    assert collect_needs(wish) == Needs(vcpus=2, memory=6.0)
    assert collect_needs(replace(wish, needs=Needs(memory=8.0))).memory == 8.0
    assert why_not(wish, [FINE]) == (
        "No offer that meets the requirements has 6 GiB of memory for 6 ranks per node; request "
        "fewer with --slots."
    )


@pytest.mark.parametrize(
    ("changes", "image", "words"),
    [
        ({}, "", ""),
        ({"memory": 0.5}, "", "c6a.large has 2 vCPUs and 0.5 GiB, and a node needs at least 2"),
        ({"memory": 0.5}, "ami-01234567", "c6a.large has 2 vCPUs and 0.5 GiB"),
        ({"has_driver": False}, "", "The image has no driver for the accelerators of c6a.large"),
        ({"has_driver": False, "gpu": "V100"}, "", "no driver for the V100 of c6a.large"),
        ({"has_driver": False}, "ami-01234567", ""),
        ({"sustained": 0.3}, "", ""),
    ],
)
def test_a_type_that_cannot_work_is_refused_with_the_remedy(changes, image, words):
    wish = FleetWish(
        "ec2", needs=Needs(types=("c6a.large",)), settings=(("image", image),) if image else ()
    )

    sentence = refusal(wish, [replace(FINE, **changes)])

    assert words in sentence
    assert bool(sentence) == bool(words)


def test_nothing_is_refused_that_no_user_named():
    assert refusal(FleetWish(), [replace(FINE, memory=0.5)]) == ""


def test_what_slows_down_says_to_how_much():
    assert slowing(FINE) == ""
    assert "slows down to 22.5 % of its vCPUs" in slowing(replace(FINE, sustained=0.225))


@pytest.mark.parametrize(
    ("maker", "gpu", "driven"),
    [
        ("NVIDIA", "T4", True),
        ("NVIDIA", "RTX PRO Server 6000", True),
        ("Nvidia", "A10G", True),
        ("NVIDIA", "V100", False),
        ("NVIDIA", "M60", False),
        ("AMD", "Radeon Pro V520", False),
        ("Habana", "Gaudi HL-205", False),
    ],
)
def test_the_open_modules_drive_nvidia_from_turing_on(maker, gpu, driven):
    assert is_driven(maker, gpu) is driven


@pytest.mark.parametrize(
    ("distributions", "found"),
    [
        ([("numpy", "2.4")], False),
        ([("cupy-cuda12x", "14.2.0")], True),
        ([("torch", "2.13.0+cpu")], False),
        ([("torch", "2.13.0")], True),
        ([("torchvision", "0.28")], False),
    ],
)
def test_an_environment_computes_on_gpus_with_cupy_or_torch(distributions, found):
    assert has_cuda(distributions) is found


def test_gpus_without_cupy_are_reported_with_the_remedy():
    reported = without_cuda(FleetWish(), T4, False, "add --cuda")

    assert (
        "add --cuda to install cupy-cuda12x[ctk]>=14 and nvidia-nccl-cu12 on the nodes" in reported
    )
    assert without_cuda(FleetWish(settings=(("cuda", True),)), T4, False, "") == ""
    assert without_cuda(FleetWish(), T4, True, "") == ""
    assert without_cuda(FleetWish(), FINE, False, "") == ""


@pytest.mark.parametrize(
    ("gbits", "close", "flows"),
    [(0.75, True, 1), (10.0, True, 1), (10.0, False, 2), (25.0, True, 3), (100.0, True, 4)],
)
def test_as_many_connections_as_a_network_needs(gbits, close, flows):
    flow = one_flow_gbits(close)
    assert flows_for(gbits, flow) == flows
    assert flows_for(gbits, flow) * flow >= min(gbits, 20.0)


def test_a_pair_of_nodes_never_gets_more_than_their_network():
    assert pair_gbits(replace(T4, network=25.0)) == 25.0
    assert pair_gbits(replace(T4, network=25.0, flow=5.0)) == 20.0
    assert pair_gbits(replace(T4, network=25.0, flow=5.0), 1) == 5.0
    assert pair_gbits(T4, 1) == 5.0
