from __future__ import annotations

import pytest

from workbench.cloud.ec2.images import IMAGES, NAMES, find_base_image, parameters, usual


def test_without_gpus_nodes_boot_what_bare_nodes_are_rehearsed_with():
    first, second, *_ = parameters("", gpus=False)

    assert first == "/aws/service/debian/release/12/latest/amd64"
    assert "ubuntu" in second  # where a region has no Debian


def test_with_gpus_nodes_boot_what_has_the_driver():
    assert {image.gpus for image in usual(gpus=True)} == {True}
    assert all("gpu" in name for name in parameters("", gpus=True))


@pytest.mark.parametrize("image", IMAGES, ids=NAMES)
def test_every_image_can_be_named(image):
    assert parameters(image.name, gpus=False) == parameters(image.name, gpus=True)
    assert find_base_image(image.name) is image


def test_an_image_of_ones_own_is_an_id_or_a_parameter():
    assert parameters("ami-12345678", gpus=True) == ()
    assert parameters("/my/image", gpus=True) == ("/my/image",)
