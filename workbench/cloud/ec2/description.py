"""What EC2's spot market is as a provider; it imports no client."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from workbench.cloud.ec2.policy import NODE_ROLE, Principal, policy_text, role_commands
from workbench.core.fleet.charges import zones_price
from workbench.core.fleet.cost import DISK_GIB, OUT_PRICE, REGION_PRICE
from workbench.core.fleet.form import FieldKind, FormField
from workbench.core.fleet.images import NAMES, find_base_image, usual
from workbench.core.fleet.model import LEASE_SECONDS, FleetWish
from workbench.core.fleet.provider import BOUGHT_OPTIONS, NODE_OPTIONS, Provider, why_not
from workbench.core.fleet.ssh_ingress import is_public
from workbench.core.node.staging import is_bucket
from workbench.core.units import dollars
from workbench.errors import InputError

# GiB of a root volume: the default image, and the limit of one gp3 volume (EBS guide).
SMALLEST_DISK, LARGEST_DISK = 8, 16384
_IMAGE = re.compile(r"ami-[0-9a-f]{8,17}|/\S+")
# Partitions aws-cn, aws-us-gov, aws-iso and aws-eusc; an account is in one of them alone.
_APART = ("cn-", "us-gov-", "us-iso", "eu-isoe-", "eusc-")
_SUBNET = re.compile(r"subnet-[0-9a-f]{8,17}")
_REGION = re.compile(r"[a-z]{2,}(-[a-z]+)+-[0-9]")


FIELDS = (
    FormField("region", "Region", "AWS region", example="from your AWS config", is_folded=False),
    FormField(
        "cuda", "Install CuPy and NCCL on nodes", "Even if this computer has neither",
        FieldKind.SWITCH, is_folded=False,
    ),
    FormField(
        "image", "Image", "Image that each node boots",
        example="debian-12 (default), ubuntu-24.04, ami-…",
    ),
    FormField(
        "disk", "Disk, GiB", "Per node; more where the image needs it", FieldKind.WHOLE, DISK_GIB
    ),
    FormField("ssh_from", "ssh from", "Who may connect by ssh", example="your address"),
    FormField(
        "subnets", "Subnets", "One per zone, separated by commas", FieldKind.WORDS,
        example="default",
    ),
    FormField(
        "lease", "Lease, min",
        "Nodes shut down if they do not hear from this computer for this long", FieldKind.NUMBER,
        LEASE_SECONDS / 60, scale=60,
    ),
)  # fmt: skip


class Ec2Spot(Provider):
    """EC2's spot market: what its requests, images and traffic are."""

    def problems(
        self,
        given: Mapping[str, Any],
        settings: Iterable[tuple[str, str]],
        spelling: Callable[[str], str],
    ) -> Iterator[tuple[str, str]]:
        """Yield what EC2 cannot do of a request."""
        yield from super().problems(given, settings, spelling)
        if sentence := why_not(check_region, given.get("region") or "us-east-1"):
            yield "region", sentence
        for subnet in given.get("subnets", ()):
            if sentence := why_not(check_subnet, subnet):
                yield "subnets", sentence
        if not SMALLEST_DISK <= (disk := given.get("disk", DISK_GIB)) <= LARGEST_DISK:
            limits = f"from {SMALLEST_DISK} to {LARGEST_DISK} GiB"
            yield "disk", f"{spelling('disk')} must be {limits}, not {disk}."
        image = given.get("image") or NAMES[0]
        if image not in NAMES and not _IMAGE.fullmatch(image):
            yield (
                "image",
                f"{image!r} is not an image; give its id (ami-…), one of {', '.join(NAMES)}, a "
                "parameter with an id (/…), or nothing to have one looked up.",
            )

    def policy(self, principal: str, store: str = "") -> tuple[str, tuple[str, ...]]:
        """Return the IAM policy of a principal, and the commands that create its role."""
        named = Principal(principal)
        return policy_text(named, store), role_commands() if named is Principal.NODE else ()

    def traffic_price(self, ssh_from: str) -> float:
        """Return the $ per GB for traffic from these nodes to this computer.

        It is billed if this computer reaches them by their public addresses. The first 100 GB of an
        account's month are free, but count here: the account's other traffic is unknown.
        """
        return OUT_PRICE if ssh_from and is_public([ssh_from]) else 0.0

    def traffic_notes(self, output: str, across_zones: bool) -> list[str]:
        """Return sentences on the traffic that is billed beside the nodes' price."""
        sentences = []
        if is_bucket(output):
            sentences.append(
                "Traffic to a bucket in their region is free; to a bucket in another "
                f"region it costs {dollars(REGION_PRICE)}/GB."
            )
        elif output:
            sentences.append(
                f"Files that come back to {output} cost {dollars(OUT_PRICE)}/GB if this "
                "computer is outside AWS."
            )
        if across_zones:
            zones = zones_price()
            sentences.append(f"{zones[0].upper()}{zones[1:]}.")
        return sentences

    def image_of(self, image: str, gpus: bool) -> tuple[str, str]:
        """Return the Python version and the title of the image that nodes boot."""
        found = find_base_image(image) if image else usual(gpus=gpus)[0]
        return (found.python, found.title) if found else ("", "")


PROVIDER = Ec2Spot(
    name="ec2",
    label="EC2 spot",
    located="on EC2 spot nodes",
    summary="Use EC2's spot market.",
    adapter="workbench.cloud.ec2.nodes:Ec2Nodes",
    flag="ec2",
    order=20,
    is_priced=True,
    is_paid=True,
    credited_seconds=3600.0,
    notice=120.0,
    shares_folder=False,
    copies_environment=True,
    common=NODE_OPTIONS | BOUGHT_OPTIONS,
    fields=FIELDS,
    images=NAMES,
    bakes=True,
    has_policy=True,
)


def role_of(fleet: FleetWish) -> str:
    """Return the name of the role that nodes need; empty if they need no permission in AWS."""
    places = (fleet.data, fleet.output, fleet.snapshots)
    return NODE_ROLE if any(map(is_bucket, places)) else ""


def check_region(text: str) -> str:
    """Return a region's name.

    Raises:
        InputError: It is not a region, or is in a partition that is not supported.
    """
    if not _REGION.fullmatch(text):
        raise InputError(f"{text!r} is not a region", "write one such as us-east-1.")
    if text.startswith(_APART):
        raise InputError(
            f"{text} is in another partition of AWS, which is not supported",
            "choose a region such as us-east-1.",
        )
    return text


def check_subnet(text: str) -> str:
    """Return a subnet's id.

    Raises:
        InputError: It is not an id.
    """
    if not _SUBNET.fullmatch(text):
        raise InputError(
            f"{text!r} is not a subnet's id",
            "write one such as subnet-0a1b2c3d (`aws ec2 describe-subnets` lists them).",
        )
    return text
