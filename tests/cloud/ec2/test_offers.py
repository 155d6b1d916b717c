"""Offers of EC2's real types, which are listed once a day."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from moto.ec2.models.instance_types import INSTANCE_TYPES

from workbench.cloud.ec2 import inventory
from workbench.cloud.ec2.inventory import InstanceType
from workbench.cloud.ec2.list_prices import KEPT_SECONDS
from workbench.cloud.ec2.offers import TypeBook
from workbench.core.fleet.connection_limits import pair_gbits
from workbench.core.fleet.fallbacks import Candidate, candidates
from workbench.core.fleet.model import Needs, Offer
from workbench.core.fleet.offers import fits

KIND = InstanceType("c5.large", 2, 1, 4.0, 0, "", 0.0, 0.75, 10.0)
KINDS = [KIND, replace(KIND, type="t3.large", sustained=0.3, credits=True, placement=False)]


@pytest.mark.parametrize(
    ("after", "kept"), [(0.0, True), (KEPT_SECONDS - 1, True), (KEPT_SECONDS, False), (-1, False)]
)
def test_types_are_kept_for_a_day_for_every_process(tmp_path: Path, after, kept) -> None:
    TypeBook(tmp_path / "types", "us-east-1").write(KINDS, 1000.0)

    assert TypeBook(tmp_path / "types", "us-east-1").read(1000.0 + after) == KINDS * kept
    assert TypeBook(tmp_path / "types", "eu-west-1").read(1000.0) == []
    assert len(list((tmp_path / "types").iterdir())) == 1


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"at": 1000, "fields": []}', "\ud800"])
def test_a_file_that_does_not_say_them_is_as_good_as_none(tmp_path: Path, text) -> None:
    book = TypeBook(tmp_path, "us-east-1")
    (tmp_path / "types-us-east-1.json").write_bytes(text.encode("utf-8", "surrogatepass"))

    assert book.read(1000.0) == []
    book.write(KINDS, 1000.0)
    assert book.read(1000.0) == KINDS


def test_a_file_of_a_release_that_knew_less_is_not_read(tmp_path: Path) -> None:
    book = TypeBook(tmp_path, "us-east-1")
    book.write(KINDS, 1000.0)
    path = tmp_path / "types-us-east-1.json"
    kept = json.loads(path.read_text())
    path.write_text(json.dumps(kept | {"fields": kept["fields"][:-1]}))

    assert book.read(1000.0) == []


def test_where_nothing_can_be_written_they_are_asked_for_each_time(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    book = TypeBook(tmp_path / "file", "us-east-1")

    book.write(KINDS, 1000.0)

    assert book.read(1000.0) == []
    assert TypeBook(None, "us-east-1").read(1000.0) == []


PROFILE = settings(derandomize=True, deadline=None, max_examples=150)
ZONES = ("us-east-1a", "us-east-1b", "us-east-1c")
TYPES: dict[str, dict[str, Any]] = {
    name: row
    for name, row in INSTANCE_TYPES.items()
    if "spot" in row["SupportedUsageClasses"]
    and "x86_64" in row["ProcessorInfo"]["SupportedArchitectures"]
    and not row["BareMetal"]
}


def price(row: dict[str, Any]) -> float:
    """Return $/h, roughly a third of what such a machine is listed at; a T is the cheapest."""
    gpus = sum(gpu.get("Count", 0) for gpu in row.get("GpuInfo", {}).get("Gpus", ()))
    full = 0.035 * row["VCpuInfo"]["DefaultVCpus"] + 0.003 * row["MemoryInfo"]["SizeInMiB"] / 1024
    share = 0.2 if re.match(r"t\d", row["InstanceType"]) else 0.35
    return round(share * (full + 0.3 * gpus), 4)


def offers() -> tuple[Offer, ...]:
    """Return all types in all zones, a little dearer from zone to zone."""
    prices = {
        (name, zone): [(0.0, round(price(row) * (1 + 0.02 * place), 4))]
        for name, row in TYPES.items()
        for place, zone in enumerate(ZONES)
    }
    kinds = [inventory.kind(row) for row in TYPES.values()]
    return inventory.offers(kinds, prices.keys(), prices, {}, 0.0)


ALL = offers()


def burstable(type_: str) -> bool:
    return TYPES[type_]["BurstablePerformanceSupported"] or bool(re.match(r"t\d", type_))


def tried(needs: Needs, nodes: int, least: int = 1) -> tuple[Candidate, ...]:
    return candidates(needs, ALL, nodes, least, placement=nodes > 1)


@pytest.mark.parametrize("nodes", [1, 2, 4, 16])
@pytest.mark.parametrize("needs", [Needs(), Needs(vcpus=4, memory=8), Needs(vcpus=8, memory=16)])
def test_a_first_purchase_is_of_machines_that_carry_the_software(needs, nodes):
    first = tried(needs, nodes)[0]

    for type_ in first.types:
        row = TYPES[type_]
        assert not burstable(type_)
        assert row["VCpuInfo"]["DefaultVCpus"] >= 2
        assert row["MemoryInfo"]["SizeInMiB"] >= 4096


def test_types_of_many_years_ago_are_bought_only_by_name():
    old = {name for name, row in TYPES.items() if row["NetworkInfo"]["EnaSupport"] == "unsupported"}
    fitting = {offer.type for offer in ALL if fits(Needs(), offer)}

    assert {"m1.large", "m3.xlarge", "c3.large", "i2.xlarge"} <= old
    assert not old & fitting
    assert tried(Needs(types=("m3.xlarge",)), 1)[0].types == ("m3.xlarge",)


wishes = st.builds(
    Needs,
    gpus=st.sampled_from([0, 0, 0, 1, 1, 2, 4, 8]),
    gpu_memory=st.sampled_from([0.0, 0.0, 16.0, 24.0, 80.0]),
    memory=st.sampled_from([0.0, 2.0, 8.0, 64.0, 512.0]),
    vcpus=st.integers(0, 96),
    network=st.sampled_from([0.0, 0.5, 5.0, 12.5, 50.0, 100.0]),
    zones=st.sampled_from([(), ZONES[:1], ZONES[1:]]),
)


@PROFILE
@given(wishes, st.integers(1, 32), st.integers(1, 32))
def test_whatever_is_needed_no_candidate_asks_for_what_ec2_or_the_image_cannot(needs, nodes, least):
    for candidate in tried(needs, nodes, min(nodes, least)):
        quotas = {inventory.quota_code(type_) for type_ in candidate.types}
        assert len(quotas) == 1
        for type_ in candidate.types:
            row = TYPES[type_]
            assert not burstable(type_)
            assert row["VCpuInfo"]["DefaultVCpus"] >= max(2, needs.vcpus)
            assert row["MemoryInfo"]["SizeInMiB"] >= 1024 * max(4, needs.memory)
            assert row["MemoryInfo"]["SizeInMiB"] >= 1024 * row["VCpuInfo"]["DefaultCores"]
            if candidate.placement:
                assert "cluster" in row["PlacementGroupInfo"]["SupportedStrategies"]
            for gpu in row.get("GpuInfo", {}).get("Gpus", ()):
                assert gpu["Manufacturer"] == "NVIDIA"
                assert gpu["Count"] >= 1
                assert gpu["Name"] not in ("V100", "M60", "K80", "K520")
            assert not {"NeuronInfo", "FpgaInfo", "MediaAcceleratorInfo"} & row.keys()
            cards = row["NetworkInfo"]["NetworkCards"]
            assert cards[0]["BaselineBandwidthInGbps"] >= needs.network


@pytest.mark.parametrize(
    ("type_", "gbits"),
    [("p5.48xlarge", 100.0), ("p4d.24xlarge", 100.0), ("c6in.32xlarge", 200.0), ("c5.large", 0.75)],
)
def test_a_network_is_that_of_one_interface(type_, gbits):
    assert inventory.kind(TYPES[type_]).network == gbits


def test_a_type_that_is_named_is_had_though_it_slows_down():
    named = Needs(types=("t3.large",))

    first = tried(named, 4)[0]

    assert (first.types, first.placement) == (("t3.large",), False)


def test_what_slows_down_is_in_no_candidate_with_what_does_not():
    named = Needs(types=("t3.large", "m6i.large", "m7i-flex.large"))

    for candidate in tried(named, 4):
        slow = {type_ for type_ in candidate.types if type_ != "m6i.large"}
        assert slow in (set(), set(candidate.types))


@pytest.mark.parametrize(
    ("type_", "share"),
    [
        ("t3.large", 0.3), ("t3a.xlarge", 0.4), ("t2.2xlarge", 0.17), ("t3.medium", 0.2),
        ("t9.huge", 0.05), ("c7i-flex.large", 0.4), ("trn1.2xlarge", 1.0), ("c5.large", 1.0),
    ],
)  # fmt: skip
def test_a_type_sustains_its_baseline(type_, share):
    assert inventory.sustained(type_) == share


def test_every_burstable_type_is_known_to_slow_down_and_to_have_credits():
    slow = {name for name in TYPES if inventory.sustained(name) < 1.0}

    assert {name for name, row in TYPES.items() if row["BurstablePerformanceSupported"]} <= slow
    assert not inventory.kind(TYPES["m7i-flex.large"]).credits
    assert inventory.kind(TYPES["t3.large"]).credits


def test_a_pair_gets_what_its_connections_carry():
    best = {offer.type: offer for offer in ALL}

    pairs = {
        name: pair_gbits(best[name]) for name in ("c5.large", "p4d.24xlarge", "m7i-flex.large")
    }

    assert pairs == {"c5.large": 0.75, "p4d.24xlarge": 40.0, "m7i-flex.large": 0.39}
    assert pair_gbits(best["p4d.24xlarge"], 1) == 10.0
    assert pair_gbits(best["c7i-flex.16xlarge"], 1) == 5.0
