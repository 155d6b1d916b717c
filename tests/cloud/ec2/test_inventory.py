from __future__ import annotations

import pytest

from workbench.cloud.ec2.inventory import (
    kind,
    machine,
    parse_end_time,
    prices,
    quota_class,
    quota_code,
    quota_name,
)


@pytest.mark.parametrize(
    ("type_", "code"),
    [
        ("c5.large", "L-34B43A08"),
        ("is4gen.large", "L-34B43A08"),
        ("g4dn.xlarge", "L-3819A6DF"),
        ("gr6.4xlarge", "L-3819A6DF"),
        ("vt1.3xlarge", "L-3819A6DF"),
        ("p3.2xlarge", "L-7212CCBC"),
        ("p5.48xlarge", "L-C4BD4855"),
        ("p6-b200.48xlarge", "L-C4BD4855"),
        ("trn1.2xlarge", "L-6B0D517C"),
        ("inf2.xlarge", "L-B5D1601B"),
        ("dl1.24xlarge", "L-85EED4F7"),
        ("x2iedn.xlarge", "L-E3A00192"),
    ],
)
def test_a_type_counts_against_the_quota_of_its_class(type_, code):
    assert quota_code(type_) == code


@pytest.mark.parametrize(
    ("type_", "code", "name"),
    [
        ("c5.large", "L-1216C47A", "Standard (A, C, D, H, I, M, R, T, Z)"),
        ("g4dn.xlarge", "L-DB2E81BA", "G and VT"),
        ("p3.2xlarge", "L-417A185B", "P"),
        ("p5.48xlarge", "L-417A185B", "P"),
        ("hpc7a.96xlarge", "L-F7808C92", "HPC"),
    ],
)
def test_on_demand_classes_have_quotas_of_their_own(type_, code, name):
    assert quota_code(type_, on_demand=True) == code
    assert quota_name(type_, on_demand=True) == f"Running On-Demand {name} instances"


@pytest.mark.parametrize("type_", ["u-6tb1.metal", "hpc7a.96xlarge", "new1.large"])
def test_a_class_without_a_known_quota_has_none(type_):
    assert quota_code(type_) == ""


def test_the_end_of_a_machine_is_read_where_ec2_says_it():
    assert parse_end_time("User initiated (2026-01-02 03:04:05 GMT)") == 1767323045.0
    assert parse_end_time("") == 0.0


@pytest.mark.parametrize(("group", "flow"), [({}, 5.0), ({"GroupName": "close"}, 10.0)])
def test_one_connection_gets_more_where_nodes_are_close_together(group, flow):
    read = machine(
        {
            "InstanceId": "i-1",
            "State": {"Name": "running"},
            "Placement": {"AvailabilityZone": "us-east-1a", **group},
        },
        network=12.5,
    )

    assert (read.network, read.flow) == (12.5, flow)


def test_one_interface_is_on_the_first_card_and_the_smallest_gpu_counts():
    read = kind(
        {
            "InstanceType": "made.up",
            "VCpuInfo": {"DefaultVCpus": 8, "DefaultCores": 4},
            "MemoryInfo": {"SizeInMiB": 2048},
            "NetworkInfo": {
                "NetworkCards": [
                    {"NetworkCardIndex": 1, "BaselineBandwidthInGbps": 70.0},
                    {
                        "NetworkCardIndex": 0,
                        "BaselineBandwidthInGbps": 50.0,
                        "PeakBandwidthInGbps": 100.0,
                    },
                ]
            },
            "GpuInfo": {
                "Gpus": [
                    {"Name": "A", "Count": 1, "MemoryInfo": {"SizeInMiB": 16384}},
                    {"Name": "B", "Count": 2, "MemoryInfo": {"SizeInMiB": 8192}},
                ]
            },
        }
    )

    assert (read.network, read.burst) == (50.0, 100.0)
    assert (read.gpus, read.gpu_memory, read.slots) == (3, 8.0, 3)


def test_prices_come_oldest_first_whatever_the_order_of_the_pages():
    from datetime import UTC, datetime

    rows = [
        {"InstanceType": "a", "AvailabilityZone": "z", "SpotPrice": str(hour), "Timestamp": at}
        for hour, at in ((h, datetime(2026, 1, 1, h, tzinfo=UTC)) for h in (3, 1, 2))
    ]

    assert [price for _, price in prices(rows)["a", "z"]] == [1.0, 2.0, 3.0]


@pytest.mark.parametrize(
    ("type_name", "name"),
    [
        ("c5n.large", "Standard (A, C, D, H, I, M, R, T, Z)"),
        ("m7i-flex.large", "Standard (A, C, D, H, I, M, R, T, Z)"),
        ("t3.micro", "Standard (A, C, D, H, I, M, R, T, Z)"),
        ("im4gn.large", "Standard (A, C, D, H, I, M, R, T, Z)"),
        ("g4dn.xlarge", "G and VT"),
        ("gr6.4xlarge", "G and VT"),
        ("vt1.3xlarge", "G and VT"),
        ("p5.48xlarge", "P5"),
        ("p4d.24xlarge", "P4, P3 and P2"),
        ("trn1.2xlarge", "Trn"),
        ("inf2.xlarge", "Inf"),
        ("x2idn.16xlarge", "X"),
        ("u-6tb1.metal", "High Memory"),
        ("quantum9.large", "quantum9"),
        ("", "unknown"),
    ],
)
def test_a_type_counts_against_the_quota_of_its_family(type_name, name) -> None:
    assert quota_class(type_name) == name
