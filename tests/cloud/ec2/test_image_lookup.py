"""A cluster's nodes boot the same image; what was looked up is kept for a successor."""

from __future__ import annotations

import pytest

from workbench.cloud.ec2.api import build_error
from workbench.cloud.ec2.image_lookup import NAME, LookupCache, find_image
from workbench.errors import CloudError

DEBIAN = "/aws/service/debian/release/12/latest/amd64"


class Region:
    """Answers for parameters and images."""

    region = "us-east-1"

    def __init__(self):
        self.newest = {DEBIAN: "ami-1"}
        self.there = {"ami-1", "ami-2"}
        self.asked = 0

    def call(self, service, operation, **request):
        if service == "ssm":
            self.asked += 1
            held = self.newest
            found = [{"Name": n, "Value": held[n]} for n in request["Names"] if n in held]
            return {"Parameters": found}
        [id_] = request["ImageIds"]
        if id_ not in self.there:
            raise build_error("InvalidAMIID.NotFound", f"{id_} does not exist")
        disk = {"DeviceName": "/dev/xvda", "Ebs": {"VolumeSize": 12}}
        return {"Images": [{"RootDeviceName": "/dev/xvda", "BlockDeviceMappings": [disk]}]}


def test_nodes_that_are_bought_later_boot_what_the_first_ones_booted():
    region, found = Region(), {}

    first = find_image(region, "", gpus=False, found=found)
    region.newest[DEBIAN] = "ami-2"
    later = find_image(region, "", gpus=False, found=found)

    assert first == later
    assert (later.id, later.root, later.size, later.title) == (
        "ami-1", "/dev/xvda", 12, "Debian 12",
    )  # fmt: skip
    assert region.asked == 1


def test_an_image_that_was_withdrawn_is_looked_up_again():
    region, found = Region(), {}
    find_image(region, "", gpus=False, found=found)
    region.there.discard("ami-1")
    region.newest[DEBIAN] = "ami-2"

    assert find_image(region, "debian-12", gpus=False, found={}).id == "ami-2"
    assert find_image(region, "", gpus=False, found=found).id == "ami-2"
    assert find_image(region, "", gpus=False, found=found).id == "ami-2"
    assert region.asked == 3


def test_another_wish_is_another_image():
    region, found = Region(), {}
    region.newest["/mine"] = "ami-2"
    find_image(region, "", gpus=False, found=found)

    assert find_image(region, "/mine", gpus=False, found=found).id == "ami-2"
    assert find_image(region, "ami-2", gpus=False, found=found).title == ""


def test_a_region_without_any_says_which_names_there_are():
    region = Region()
    region.newest = {}

    with pytest.raises(CloudError, match=r"no SSM parameter .*; name an existing one .*debian-12"):
        find_image(region, "", gpus=False)


def test_the_successor_finds_what_was_looked_up(tmp_path):
    LookupCache(tmp_path)["one"] = "/parameter ami-1"

    assert dict(LookupCache(tmp_path)) == {"one": "/parameter ami-1"}


def test_an_invalid_file_is_looked_up_again(tmp_path):
    (tmp_path / NAME).write_text("[1")
    book = LookupCache(tmp_path)

    assert "one" not in book
    book["one"] = "two"
    assert dict(book) == {"one": "two"}


def test_the_next_cluster_of_a_name_looks_up_again(tmp_path):
    book = LookupCache(tmp_path)
    book["one"] = "two"

    book.discard()
    book.discard()

    assert list(book) == []
