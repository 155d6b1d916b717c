"""What EC2 is as a provider, and what it bills beside machines; it imports no client."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Sequence
from dataclasses import dataclass
from ipaddress import IPv4Network

from workbench.cloud.ec2.images import NAMES, find_base_image, usual
from workbench.cloud.ec2.policy import NODE_ROLE, Principal, policy_text, role_commands
from workbench.core.fleet.cost import HOUR, zones_price
from workbench.core.fleet.form import CUDA, LEASE, FieldKind, FormField
from workbench.core.fleet.model import FleetWish
from workbench.core.fleet.provider import BOUGHT_OPTIONS, NODE_OPTIONS, Provider, Wished
from workbench.core.node.staging import is_bucket
from workbench.core.option import DATA, FLAG, JOB, NEEDED, NODES, Option, text, whole
from workbench.core.option import PROVIDER as SECTION
from workbench.core.units import dollars
from workbench.errors import InputError

MONTH_HOURS = 730.0
# $ per GiB and hour of a general-purpose volume: gp3 in us-east-1, $0.08 a month, as in
# aws.amazon.com/ebs/pricing; no region costs twice as much.
STORAGE_PRICE = 0.08 / MONTH_HOURS
# $ per GiB and hour of a snapshot in the standard tier, $0.05 a month; empty blocks are free.
SNAPSHOT_PRICE = 0.05 / MONTH_HOURS
# $ per GB between two zones of a region, for both the sender and the receiver: "Data transfer
# within the same AWS Region", aws.amazon.com/ec2/pricing/on-demand, 2026.
ZONE_PRICE = 0.01
# $/h of a public IPv4 address in use, since 2024-02-01: "Public IPv4 address",
# aws.amazon.com/vpc/pricing, 2026.
ADDRESS_PRICE = 0.005
# $ per GB to the internet: the first 10 TB a month of us-east-1, beyond the 100 GB that are free,
# aws.amazon.com/ec2/pricing/on-demand, 2026. Inbound traffic is free.
OUT_PRICE = 0.09
# $ per GB to another region: "Data transfer out from EC2 to other AWS regions" of us-east-1.
REGION_PRICE = 0.02
# GiB of a node's root volume, unless its image needs more.
DISK_GIB = 50

# GiB of a root volume: the default image, and the limit of one gp3 volume (EBS guide).
SMALLEST_DISK, LARGEST_DISK = 8, 16384
_IMAGE = re.compile(r"ami-[0-9a-f]{8,17}|/\S+")
# Partitions aws-cn, aws-us-gov, aws-iso and aws-eusc; an account is in one of them alone.
_APART = ("cn-", "us-gov-", "us-iso", "eu-isoe-", "eusc-")
_SUBNET = re.compile(r"subnet-[0-9a-f]{8,17}")
_REGION = re.compile(r"[a-z]{2,}(-[a-z]+)+-[0-9]")


# Not Python's ``is_private``: that includes the addresses of examples, and not the shared addresses
# of VPNs.
PRIVATE = tuple(
    IPv4Network(text) for text in ("10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "100.64.0.0/10")
)


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


def check_subnets(ids: Sequence[str]) -> None:
    """Check the ids of subnets.

    Raises:
        InputError: One is not an id.
    """
    for one in ids:
        if not _SUBNET.fullmatch(one):
            raise InputError(
                f"{one!r} is not a subnet's id",
                "write one such as subnet-0a1b2c3d (`aws ec2 describe-subnets` lists them).",
            )


def check_image(text: str) -> None:
    """Check the image that nodes boot.

    Raises:
        InputError: It is neither an id, a name of ours nor a parameter.
    """
    if text not in NAMES and not _IMAGE.fullmatch(text):
        raise InputError(
            f"{text!r} is not an image",
            f"give its id (ami-…), one of {', '.join(NAMES)}, a parameter with an id (/…), or "
            "nothing to have one looked up.",
        )


def check_disk(gibibytes: int) -> None:
    """Check the size of a node's root volume.

    Raises:
        ValueError: No volume has it.
    """
    if not SMALLEST_DISK <= gibibytes <= LARGEST_DISK:
        raise ValueError(f"from {SMALLEST_DISK} to {LARGEST_DISK} GiB, not {gibibytes}")


# This computer's public address, whatever it is at the moment.
AUTO = "auto"
# Campus and mobile networks leave through a pool of addresses; more of them are strangers.
WIDEST = 24


def parse_ssh_sources(text: str) -> tuple[str, ...]:
    """Return the networks that may use ssh, and ``auto`` as it is.

    Args:
        text: Addresses, networks or ``auto``, separated by commas.

    Raises:
        InputError: One is not valid; see ``check_ssh_source``.
    """
    words = text.replace(",", " ").split() or [text]
    return tuple(dict.fromkeys(w if w == AUTO else str(check_ssh_source(w)) for w in words))


def check_ssh_source(text: str) -> IPv4Network:
    """Return the network that may use ssh; a single address is a network of one.

    Raises:
        InputError: It is invalid, of IPv6, or public with more than 256 addresses.
    """
    try:
        network = ipaddress.ip_network(text.strip(), strict=False)
    except ValueError as error:
        raise InputError(
            f"{text!r} is not a network",
            "write an address, such as 203.0.113.7, a network, such as 10.8.0.0/16, or auto.",
        ) from error
    if not isinstance(network, IPv4Network):
        raise InputError(
            f"{text} is an IPv6 address, and nodes are reached by IPv4",
            "name this computer's IPv4 "
            "address (`curl -4 https://checkip.amazonaws.com` prints it).",
        )
    if network.prefixlen < WIDEST and is_public([str(network)]):
        raise InputError(
            f"{text} is public and more than 256 addresses",
            "allow this computer alone (auto), or the pool of addresses of its network (/24).",
        )
    return network


def is_public(ssh_sources: Sequence[str]) -> bool:
    """Return whether ssh comes over the internet, so that nodes need public addresses."""
    return any(not _is_private(ssh_source) for ssh_source in ssh_sources)


def _is_private(ssh_source: str) -> bool:
    if ssh_source == AUTO:
        return False
    network = ipaddress.ip_network(ssh_source)
    return isinstance(network, IPv4Network) and any(map(network.subnet_of, PRIVATE))


FIELDS = (
    FormField(
        "on_demand", "On demand", "At a fixed, higher price; EC2 does not take nodes back",
        FieldKind.SWITCH, is_folded=False,
        typed=Option(
            "on_demand",
            "Buy nodes on demand rather than on the spot market: at a fixed, higher price, and EC2 "
            "does not take them back.",
            FLAG, on=("up", "offers", "plan", JOB), section=SECTION, example=True,
        ),
    ),
    CUDA,
    FormField(
        "image", "Image", "Image that each node boots",
        example="debian-13, ubuntu-24.04, ami-…",
        check=check_image,
        typed=Option(
            "image", "Image that nodes boot: its id (ami-…) or a name such as ubuntu-24.04.",
            text("IMAGE", "the id of an image"), on=("up", JOB), section=DATA,
            shown="one that has this Python: debian-12, ubuntu-24.04, debian-13",
            example="ami-0123456789abcdef0",
        ),
    ),
    FormField(
        "disk", "Disk, GiB", "Per node; more where the image needs it", FieldKind.WHOLE, DISK_GIB,
        check=check_disk,
        typed=Option(
            "disk", "Size of each node's disk.", whole(SMALLEST_DISK, LARGEST_DISK, "GIB"),
            on=("up", JOB), section=DATA, shown=f"{DISK_GIB}, or what the image needs",
            example=200,
        ),
    ),
    FormField(
        "ssh_from", "ssh from", "Who may connect by ssh", example="auto, or your address",
        check=parse_ssh_sources,
        typed=Option(
            "ssh_from",
            "Addresses or networks (CIDR) from which nodes accept ssh, separated by commas; auto "
            "is this machine's public address, also when it changes.",
            text("ADDRESS", "auto, addresses or networks"), on=("up", JOB), section=SECTION,
            shown="this machine's, inside EC2", is_kept=True, example="203.0.113.7",
        ),
    ),
    FormField(
        "subnets", "Subnets", "One per zone, separated by commas", FieldKind.WORDS,
        example="default",
        check=check_subnets,
        typed=Option(
            "subnets", "Launch nodes in this subnet; repeatable, one per zone.",
            text("ID", "a list of texts"), on=NEEDED, typed="--subnet", section=NODES, many=True,
            shown="default subnets", example=["subnet-0a1b2c3d"],
        ),
    ),
    LEASE,
)  # fmt: skip


class Ec2Description(Provider):
    """What EC2's requests, images and traffic are."""

    def policy(self, principal: str, store: str = "") -> tuple[str, tuple[str, ...]]:
        """Return the IAM policy of a principal, and the commands that create its role."""
        named = Principal(principal)
        return policy_text(named, store), role_commands() if named is Principal.NODE else ()

    def traffic_price(self, wish: Wished) -> float:
        """Return the $ per GB for traffic from these nodes to this computer.

        It is billed if this computer reaches them by their public addresses. The first 100 GB of an
        account's month are free, but count here: the account's other traffic is unknown.
        """
        ssh_from = wish.setting("ssh_from", "")
        return OUT_PRICE if ssh_from and is_public(parse_ssh_sources(ssh_from)) else 0.0

    def traffic_notes(self, wish: Wished) -> list[str]:
        """Return sentences on the traffic that is billed beside the nodes' price."""
        sentences = []
        if wish.setting("on_demand", False):
            sentences.append(
                "The nodes are bought on demand: their price is fixed, and EC2 does not take them "
                "back."
            )
        if is_bucket(wish.output):
            sentences.append(
                "Traffic to a bucket in their region is free; to a bucket in another "
                f"region it costs {dollars(REGION_PRICE)}/GB."
            )
        back = [wish.output] if wish.output and not is_bucket(wish.output) else []
        back += [] if wish.snapshots else ["snapshots"]
        if back and (price := self.traffic_price(wish)):
            sentences.append(
                f"Traffic from the nodes to this computer ({' and '.join(back)}) costs "
                f"{dollars(price)}/GB. The first 100 GB of a month are free, but count for a "
                "budget."
            )
        if wish.across_zones:
            zones = zones_price(ZONE_PRICE)
            sentences.append(f"{zones[0].upper()}{zones[1:]}.")
        return [*sentences, "VAT, and what a bucket stores, come on top."]

    def image_of(self, wish: Wished, gpus: bool) -> tuple[str, str]:
        """Return the Python version and the title of the image that nodes boot."""
        image = wish.setting("image", "")
        found = find_base_image(image) if image else usual(gpus=gpus)[0]
        return (found.python, found.title) if found else ("", "")

    def image_terms(self, wish: Wished) -> str:
        """Return what an image that is made of a node costs, as a sentence."""
        month, disk = SNAPSHOT_PRICE * MONTH_HOURS, wish.setting("disk", DISK_GIB)
        return (
            f"Until you delete it, the image's snapshot costs about {dollars(month)} per GiB and "
            f"month: at most {dollars(month * disk)} a month for a disk of {disk} GiB."
        )

    def limits_drivers(self, wish: Wished) -> bool:
        """Return whether nodes boot one of the images whose drivers are known."""
        return wish.setting("image", "") in ("", *NAMES)


PROVIDER = Ec2Description(
    name="ec2",
    label="EC2",
    located="on EC2",
    summary="Use EC2's spot market, or its fixed prices (--on-demand).",
    adapter="workbench.cloud.ec2.nodes:Ec2Nodes",
    flag="ec2",
    order=20,
    is_priced=True,
    is_paid=True,
    credited_seconds=HOUR,
    zone_price=ZONE_PRICE,
    notice=120.0,
    shares_folder=False,
    copies_environment=True,
    common=NODE_OPTIONS | BOUGHT_OPTIONS | {"region"},
    fields=FIELDS,
    admits_ssh=True,
    bakes=True,
    has_policy=True,
    caution="EC2 itself was never used: all was tested on a strict simulation of it. Begin with "
    "few nodes, a budget and a short time to live.",
)


def role_of(fleet: FleetWish) -> str:
    """Return the name of the role that nodes need; empty if they need no permission in AWS."""
    places = (fleet.data, fleet.output, fleet.snapshots)
    return NODE_ROLE if any(map(is_bucket, places)) else ""


@dataclass(frozen=True)
class NodeSettings:
    """What all nodes of a cluster have in common.

    Args:
        ssh_sources: Networks from which nodes accept ssh, such as ``10.0.0.5/32``, or ``auto``.
        profile: Instance profile of the nodes' role; empty for nodes without any right.
        image: An image's id, name or parameter; empty to look one up.
        subnets: Ids of the subnets for nodes; empty for the default ones.
        disk: GiB of each root volume.
        on_demand: Whether nodes are bought on demand rather than on the spot market.
    """

    ssh_sources: Sequence[str] = ()
    profile: str = ""
    image: str = ""
    subnets: Sequence[str] = ()
    disk: int = DISK_GIB
    on_demand: bool = False

    @property
    def public(self) -> bool:
        """Whether nodes are reached through the internet."""
        return is_public(self.ssh_sources)


def node_settings(wish: FleetWish) -> NodeSettings:
    """Return what the nodes of a wish have in common."""
    ssh_from = wish.setting("ssh_from", "")
    return NodeSettings(
        parse_ssh_sources(ssh_from) if ssh_from else (),
        role_of(wish),
        wish.setting("image", ""),
        wish.setting("subnets", ()),
        wish.setting("disk", DISK_GIB),
        wish.setting("on_demand", False),
    )


def storage_price(gibibytes: float) -> float:
    """Return the $/h of a volume."""
    return STORAGE_PRICE * gibibytes


def extra_price(gibibytes: float, *, public: bool) -> float:
    """Return the $/h of what is billed beside a machine of EC2.

    Args:
        gibibytes: Size of its root volume.
        public: Whether it has a public IPv4 address.
    """
    return storage_price(gibibytes) + (ADDRESS_PRICE if public else 0.0)
