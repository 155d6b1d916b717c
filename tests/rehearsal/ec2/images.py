"""Provide the public images with their parameters, and make images of machines."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from moto.core.responses import ActionResult
from moto.ec2.models.amis import Ami
from moto.ec2.models.elastic_block_store import Snapshot
from moto.ec2.responses import EC2Response
from moto.ec2.utils import convert_tag_spec

from tests.rehearsal.ec2 import late
from tests.rehearsal.ec2.answers import Refused, at, type_facts
from tests.rehearsal.ec2.market import MARKET

# Called when a disk's state is taken into an image; a rehearsal with machines listens.
on_image: list[Callable[[str, str], None]] = []

# The open kernel modules drive Turing and newer alone (aws/aws-parallelcluster#6014).
TOO_OLD = frozenset({"V100", "M60", "K80", "K520", "M2050"})


@dataclass(frozen=True)
class Public:
    """A public image.

    Args:
        parameter: Its public parameter of Systems Manager.
        root: Name of its root device.
        gib: Size of its root.
        driver: Whether it has NVIDIA's driver.
    """

    parameter: str
    id: str
    name: str
    root: str
    gib: int
    driver: bool = False


PUBLIC = (
    Public(
        "/aws/service/debian/release/12/latest/amd64",
        "ami-0deb12000000000aa",
        "debian-12-amd64-20250814-2204",
        "/dev/xvda",
        8,
    ),
    Public(
        "/aws/service/canonical/ubuntu/server/24.04/stable/current/amd64/hvm/ebs-gp3/ami-id",
        "ami-785db401",
        "ubuntu/images/hvm-ssd-gp3/ubuntu-noble-24.04-amd64-server-20250821",
        "/dev/sda1",
        8,
    ),
    Public(
        "/aws/service/deeplearning/ami/x86_64/base-oss-nvidia-driver-gpu-ubuntu-24.04/latest/"
        "ami-id",
        "ami-dca37ea5",
        "Deep Learning Base OSS Nvidia Driver GPU AMI (Ubuntu 24.04) 20250822",
        "/dev/sda1",
        75,
        driver=True,
    ),
)
PARAMETERS = {one.parameter: one.id for one in PUBLIC}


class Sized(Ami):  # type: ignore[misc]  # moto has no types
    """An image whose root is as large as it is; moto has 15 GiB for all."""

    gib = 8
    driver = False

    @property
    def block_device_mappings(self) -> list[dict[str, Any]]:
        [mapping] = super().block_device_mappings
        disk = {**mapping["Ebs"], "VolumeSize": self.gib}
        if not is_taken(self.id):
            del disk["SnapshotId"]
        return [{**mapping, "Ebs": disk}]


class Growing(Snapshot):  # type: ignore[misc]  # moto has no types
    """A snapshot that takes its time."""

    done = "0%"
    gib = 8

    @property
    def progress(self) -> str:
        return self.done

    @property
    def volume_size(self) -> int:
        return self.gib


class Images(EC2Response):  # type: ignore[misc]  # moto has no types
    """The calls that concern images of machines."""

    def create_image(self) -> ActionResult:
        backend, id_ = self.ec2_backend, self._get_param("InstanceId")
        image = backend.create_image(id_, self._get_param("Name"), "", [])
        tags = convert_tag_spec(self._get_param("TagSpecifications", []))
        backend.create_tags([image.id], tags.get("image", {}))
        backend.create_tags([image.ebs_snapshot.id], tags.get("snapshot", {}))
        MARKET.images[image.id] = MARKET.now
        MARKET.made[self.region, late.IMAGE, image.id] = MARKET.now
        image.state = "pending"
        _derive(image, backend.get_instance(id_))
        settle(backend)
        return ActionResult({"ImageId": image.id})

    def describe_images(self) -> ActionResult:
        """A new image is unknown at first (ansible-collections/amazon.aws#1321)."""
        for id_ in self._get_param("ImageIds", []):
            if late.is_late(self.region, late.IMAGE, id_):
                raise Refused("InvalidAMIID.NotFound", f"The image id '[{id_}]' does not exist")
        found = super().describe_images().result["Images"]
        known = [one for one in found if not late.is_late(self.region, late.IMAGE, one.id)]
        return ActionResult({"Images": known})

    def describe_snapshots(self) -> ActionResult:
        found = super().describe_snapshots().result["Snapshots"]
        return ActionResult({"Snapshots": [one for one in found if is_taken(one.from_ami)]})


def is_taken(image: str) -> bool:
    """Return whether the disk's state has been taken into an image."""
    return image not in MARKET.images or image in MARKET.taken


def settle(backend: Any) -> None:
    """Take the disks' states that are due, and let images become available.

    CreateImage is asynchronous: it returns, and the disk is taken some time after.
    """
    for image in list(backend.amis.values()):
        if image.id not in MARKET.images or image.state not in ("pending", "available"):
            continue
        age = MARKET.now - MARKET.images[image.id]
        if image.id not in MARKET.taken and age >= MARKET.picture:
            _take(backend, image)
        if image.state == "failed":
            continue
        done = age >= MARKET.imaging and image.id in MARKET.taken
        image.state = "available" if done else "pending"
        image.ebs_snapshot.done = "100%" if done else "40%"


def _take(backend: Any, image: Any) -> None:
    if backend.get_instance(image.instance_id).state in ("shutting-down", "terminated"):
        image.state = "failed"
        return
    MARKET.taken.add(image.id)
    image.ebs_snapshot.start_time = at(MARKET.now)
    for listener in on_image:
        listener(image.id, image.instance_id)


def _derive(image: Any, instance: Any) -> None:
    """Let an image of a machine be like what the machine booted, and as large as its disk."""
    source = instance.ec2_backend.amis[instance.image_id]
    disks = [disk.size for disk in instance.block_device_mapping.values()]
    image.__class__, image.ebs_snapshot.__class__ = Sized, Growing
    image.gib = image.ebs_snapshot.gib = int(disks[0]) if disks else 8
    image.driver = getattr(source, "driver", False)
    image.root_device_name = source.root_device_name


def publish(backend: Any) -> None:
    """Have a region's EC2 have the public images."""
    for public in PUBLIC:
        known = backend.amis.get(public.id)
        if isinstance(known, Sized):
            continue
        image = Sized(
            backend,
            public.id,
            name=public.name,
            public=True,
            owner_alias="amazon",
            virtualization_type="hvm",
            architecture="x86_64",
            root_device_name=public.root,
            root_device_type="ebs",
        )
        image.gib, image.driver = public.gib, public.driver
        backend.amis[public.id] = image


def drives(image: Any, type_: str) -> bool:
    """Return whether an image's driver knows a type's GPUs; those of AMD it does not."""
    gpus = type_facts(type_).get("GpuInfo", {}).get("Gpus", ())
    return bool(gpus) and getattr(image, "driver", False) and all(
        gpu.get("Manufacturer") == "NVIDIA" and gpu.get("Count", 0) > 0
        and gpu.get("Name") not in TOO_OLD
        for gpu in gpus
    )  # fmt: skip
