"""The machine images of nodes, by name, with their properties."""

from __future__ import annotations

import sys
from dataclasses import dataclass

from workbench.core.quote import shorten_text

# Nodes have the version of Python that this process has.
PYTHON = "{}.{}".format(*sys.version_info)
_DEEP = "/aws/service/deeplearning/ami/x86_64/base-oss-nvidia-driver-gpu-{}/latest/ami-id"
_UBUNTU = "/aws/service/canonical/ubuntu/server/{}/stable/current/amd64/hvm/{}/ami-id"
_DEBIAN = "/aws/service/debian/release/{}/latest/amd64"


@dataclass(frozen=True)
class BaseImage:
    """A public image as published by its maintainer.

    Args:
        name: The name in options.
        title: The name in messages.
        parameter: The public parameter of SSM with the id of the newest one.
        python: Version of its own Python, which nodes use if it is that of the notebook.
        user: The user that its cloud-init creates by default. Ours is another one.
        ssh: The unit that starts sshd: ``ssh.service``, or ``ssh.socket`` on the first connection.
        size: GiB of its root when it was last checked; EC2's own value takes precedence.
        gpus: Whether it has NVIDIA's driver and CUDA.
        bridged: Whether it has Docker's bridge, which has the same address on every node, so that
            MPI must be limited to another network.
    """

    name: str
    title: str
    parameter: str
    python: str
    user: str
    ssh: str = "ssh.service"
    size: int = 8
    gpus: bool = False
    bridged: bool = False


# Sources: the publishers' pages on the parameters, and the release notes of Debian, Ubuntu and AWS.
# Ubuntu starts sshd by its socket since 22.10.
IMAGES = (
    BaseImage("debian-13", "Debian 13", _DEBIAN.format(13), "3.13", "admin"),
    BaseImage("debian-12", "Debian 12", _DEBIAN.format(12), "3.11", "admin"),
    BaseImage(
        "ubuntu-24.04",
        "Ubuntu 24.04",
        _UBUNTU.format("24.04", "ebs-gp3"),
        "3.12",
        "ubuntu",
        "ssh.socket",
    ),
    BaseImage("ubuntu-22.04", "Ubuntu 22.04", _UBUNTU.format("22.04", "ebs-gp2"), "3.10", "ubuntu"),
    BaseImage(
        "gpu-ubuntu-24.04",
        "Deep Learning Base of Ubuntu 24.04",
        _DEEP.format("ubuntu-24.04"),
        "3.12",
        "ubuntu",
        "ssh.socket",
        75,
        gpus=True,
        bridged=True,
    ),
    BaseImage(
        "gpu-ubuntu-22.04",
        "Deep Learning Base of Ubuntu 22.04",
        _DEEP.format("ubuntu-22.04"),
        "3.10",
        "ubuntu",
        size=75,
        gpus=True,
        bridged=True,
    ),
)
NAMES = tuple(image.name for image in IMAGES)


def find_base_image(name: str) -> BaseImage | None:
    """Return the image of that name; None if the name is not one of ours."""
    return next((image for image in IMAGES if image.name == name), None)


def usual(*, gpus: bool, python: str = PYTHON) -> tuple[BaseImage, ...]:
    """Return the default images of nodes; the first one that a region has is used.

    Args:
        python: The version that nodes need. An image that has it downloads none.
    """
    fitting = [image for image in IMAGES if image.gpus is gpus]
    return tuple(sorted(fitting, key=lambda image: image.python != python))


def parameters(wished: str, *, gpus: bool, python: str = PYTHON) -> tuple[str, ...]:
    """Return the parameters that may have the image's id; empty if ``wished`` is an id itself.

    Args:
        wished: A name of ``IMAGES``, a parameter, an id, or empty for the default.
        gpus: Whether the nodes have GPUs, and need their driver.
        python: See ``usual``.
    """
    if wished.startswith("/"):
        return (wished,)
    known = find_base_image(wished)
    if known is not None:
        return (known.parameter,)
    return () if wished else tuple(image.parameter for image in usual(gpus=gpus, python=python))


def find_title(parameter: str) -> str:
    """Return the title of the image that a parameter refers to."""
    found = (image.title for image in IMAGES if image.parameter == parameter)
    return next(found, shorten_text(parameter))
