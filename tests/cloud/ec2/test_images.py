from __future__ import annotations

import sys

import pytest

from tests.rehearsal.bare.debian import PYTHONS
from workbench.cloud.ec2.images import IMAGES, NAMES, find_base_image, parameters, usual


@pytest.mark.parametrize(
    ("python", "image"),
    [
        ("3.11", "debian-12"),
        ("3.12", "ubuntu-24.04"),
        ("3.13", "debian-13"),
        ("3.14", "debian-13"),  # which downloads it
    ],
)
def test_without_gpus_nodes_boot_the_image_that_has_the_notebooks_python(python, image):
    first, *others = usual(gpus=False, python=python)

    assert first.name == image
    assert {one.name for one in others} >= {"debian-12", "ubuntu-24.04"} - {image}
    assert parameters("", gpus=False, python=python)[0] == first.parameter


def test_the_bare_nodes_of_tests_are_what_nodes_boot():
    for release, version in PYTHONS.items():
        python = "{}.{}".format(*version)
        first = usual(gpus=False, python=python)[0]
        user = "ubuntu" if release == "noble" else "admin"
        assert (first.python, first.user) == (python, user)
    assert usual(gpus=False) == usual(gpus=False, python="{}.{}".format(*sys.version_info))


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
