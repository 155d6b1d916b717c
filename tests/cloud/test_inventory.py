from __future__ import annotations

import pytest

from workbench.cloud.inventory import QUOTAS, ended, kind, prices, quota_code


@pytest.mark.parametrize(
    ("type_", "family"),
    [
        ("c5.large", "c"),
        ("g4dn.xlarge", "g"),
        ("gr6.4xlarge", "gr"),
        ("vt1.3xlarge", "vt"),
        ("p3.2xlarge", "p"),
        ("p5.48xlarge", "p5"),
        ("trn1.2xlarge", "trn"),
        ("inf2.xlarge", "inf"),
        ("dl1.24xlarge", "dl"),
        ("is4gen.large", "i"),
        ("x2iedn.xlarge", "x"),
    ],
)
def test_a_type_counts_against_the_quota_of_its_class(type_, family):
    assert quota_code(type_) == QUOTAS[family]


@pytest.mark.parametrize("type_", ["u-6tb1.metal", "hpc7a.96xlarge", "new1.large"])
def test_a_class_without_a_known_quota_has_none(type_):
    assert quota_code(type_) == ""


def test_the_end_of_a_machine_is_read_where_ec2_says_it():
    assert ended("User initiated (2026-01-02 03:04:05 GMT)") == 1767323045.0
    assert ended("") == 0.0


def test_network_cards_are_added_and_the_smallest_gpu_counts():
    read = kind(
        {
            "InstanceType": "made.up",
            "VCpuInfo": {"DefaultVCpus": 8, "DefaultCores": 4},
            "MemoryInfo": {"SizeInMiB": 2048},
            "NetworkInfo": {
                "NetworkCards": [{"BaselineBandwidthInGbps": 50.0, "PeakBandwidthInGbps": 100.0}]
                * 2
            },
            "GpuInfo": {
                "Gpus": [
                    {"Name": "A", "Count": 1, "MemoryInfo": {"SizeInMiB": 16384}},
                    {"Name": "B", "Count": 2, "MemoryInfo": {"SizeInMiB": 8192}},
                ]
            },
        }
    )

    assert (read.network, read.burst) == (100.0, 200.0)
    assert (read.gpus, read.gpu_memory, read.slots) == (3, 8.0, 3)


def test_prices_come_oldest_first_whatever_the_order_of_the_pages():
    from datetime import UTC, datetime

    rows = [
        {"InstanceType": "a", "AvailabilityZone": "z", "SpotPrice": str(hour), "Timestamp": at}
        for hour, at in ((h, datetime(2026, 1, 1, h, tzinfo=UTC)) for h in (3, 1, 2))
    ]

    assert [price for _, price in prices(rows)["a", "z"]] == [1.0, 2.0, 3.0]
