"""The metadata service has EC2's paths, which cloud-init reads folder by folder."""

from __future__ import annotations

from tests.rehearsal.ec2.imds import look_up

KNOWN = {
    "meta-data/instance-id": "i-1",
    "meta-data/placement/availability-zone": "us-east-1a",
    "meta-data/placement/region": "us-east-1",
    "user-data": "#cloud-config",
}


def test_a_value_is_the_same_in_every_version() -> None:
    for version in ("latest", "2021-03-23"):
        assert look_up(KNOWN, f"/{version}/meta-data/instance-id") == "i-1"


def test_a_folder_is_a_list_of_names_in_which_folders_end_with_a_stroke() -> None:
    assert look_up(KNOWN, "/latest/meta-data/") == "instance-id\nplacement/"
    assert look_up(KNOWN, "/latest/meta-data/placement/") == "availability-zone\nregion"
    assert look_up(KNOWN, "/latest") == "meta-data/\nuser-data"


def test_what_is_not_there_is_nothing() -> None:
    assert look_up(KNOWN, "/latest/meta-data/spot/instance-action") is None
    assert look_up(KNOWN, "/latest/meta-data/instance") is None
