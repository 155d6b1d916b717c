"""Which types may be bought, and the errors for other types that the user names."""

from __future__ import annotations

from dataclasses import replace

import pytest

from workbench.cloud.ec2.inventory import one_flow_gbits
from workbench.core.fleet.connection_limits import flows_for, pair_gbits
from workbench.core.fleet.model import FleetWish, Needs, Offer
from workbench.core.fleet.offers import (
    collect_needs,
    fits,
    has_cuda,
    is_driven,
    refusal,
    slowing,
    why_not,
    without_cuda,
)

FINE = Offer("c6a.large", "a", 0.03, 2, 4.0, network=0.781, slots=1)
GPU = Offer("g4dn.xlarge", "a", 0.2, 4, 16.0, gpus=1, gpu="T4", network=5.0)


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
    reported = without_cuda(FleetWish(), GPU, False, "add --cuda")

    assert (
        "add --cuda to install cupy-cuda12x[ctk]>=14 and nvidia-nccl-cu12 on the nodes" in reported
    )
    assert without_cuda(FleetWish(settings=(("cuda", True),)), GPU, False, "") == ""
    assert without_cuda(FleetWish(), GPU, True, "") == ""
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
    assert pair_gbits(replace(GPU, network=25.0)) == 25.0
    assert pair_gbits(replace(GPU, network=25.0, flow=5.0)) == 20.0
    assert pair_gbits(replace(GPU, network=25.0, flow=5.0), 1) == 5.0
    assert pair_gbits(GPU, 1) == 5.0
