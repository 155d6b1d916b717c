"""Turn the options about nodes into a fleet's wish; report invalid and contradictory ones.

The command line and a job file have the same options; only their spelling differs.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields, replace

from workbench.core.fleet.images import NAMES
from workbench.core.fleet.model import LEASE_SECONDS, FleetWish, Needs, Provider
from workbench.core.fleet.ssh_ingress import check_ssh_source
from workbench.core.node.staging import check_folder_name, is_bucket, parse_bucket
from workbench.core.world.world import MAX_RANKS, Host
from workbench.errors import InputError

MAX_NODES = 512
HOUR = 3600.0
DEFAULT_TTL = 8 * HOUR
DEFAULT_LIMIT = 7 * 24 * HOUR
"""Time to live of a job's paid nodes, as in a batch service."""
# From the request of the nodes until the run begins.
START_SECONDS = HOUR
COSTLY = frozenset({Provider.EC2, Provider.REHEARSAL})
# Options for bought nodes alone, and options for any nodes but this machine.
_BOUGHT = (
    "gpus", "gpu_memory", "memory", "vcpus", "network", "types", "zones", "subnets", "region",
    "max_price", "budget", "image", "disk", "cuda", "ssh_from", "lease", "across_zones",
)  # fmt: skip
_ANY = (
    "nodes", "min_nodes", "max_nodes", "slots", "ttl", "data", "output", "snapshots", "prepare",
    "link", *_BOUGHT,
)  # fmt: skip
# GiB of a root volume: the default image, and the limit of one gp3 volume (EBS guide).
SMALLEST_DISK, LARGEST_DISK = 8, 16384
SHORTEST_LEASE, LONGEST_LEASE = 60.0, 86400.0
_AMOUNTS = ("gpu_memory", "memory", "network", "max_price", "budget", "ttl", "link")
_IMAGE = re.compile(r"ami-[0-9a-f]{8,17}|/\S+")
# Partitions aws-cn, aws-us-gov, aws-iso and aws-eusc; an account is in one of them alone.
_APART = ("cn-", "us-gov-", "us-iso", "eu-isoe-", "eusc-")
_SUBNET = re.compile(r"subnet-[0-9a-f]{8,17}")
_REGION = re.compile(r"[a-z]{2,}(-[a-z]+)+-[0-9]")


@dataclass(frozen=True)
class FleetRequest:
    """The options as given; None where an option is missing.

    Args:
        gpu_memory: GiB, like ``memory``.
        network: Gbit/s, sustained.
        max_price: $/h of all nodes together.
        budget: $ for the cluster's whole life.
        ttl: Time to live: seconds until everything is deleted; 0 for never.
        prepare: The script's text.
        disk: GiB of each node's root volume.
        cuda: Whether nodes get CuPy and NCCL.
        ssh_from: The network that may reach bought nodes by ssh.
        lease: Seconds without contact to this computer after which a node ends itself.
        across_zones: Whether nodes may be added in another zone than that of the others.
        link: Gbit/s between a rehearsal's nodes.
    """

    provider: Provider | None = None
    hosts: tuple[Host, ...] = ()
    nodes: int | None = None
    min_nodes: int | None = None
    max_nodes: int | None = None
    slots: int | None = None
    gpus: int | None = None
    gpu_memory: float | None = None
    memory: float | None = None
    vcpus: int | None = None
    network: float | None = None
    types: tuple[str, ...] | None = None
    zones: tuple[str, ...] | None = None
    subnets: tuple[str, ...] | None = None
    region: str | None = None
    max_price: float | None = None
    budget: float | None = None
    ttl: float | None = None
    data: str | None = None
    output: str | None = None
    snapshots: str | None = None
    prepare: str | None = None
    image: str | None = None
    disk: int | None = None
    cuda: bool | None = None
    ssh_from: str | None = None
    lease: float | None = None
    across_zones: bool | None = None
    link: float | None = None

    @property
    def resolved_provider(self) -> Provider:
        """The provider; given hosts imply it."""
        return self.provider or (Provider.HOSTS if self.hosts else Provider.THIS_MACHINE)

    @property
    def size(self) -> int:
        """The desired number of nodes (default: all hosts, or one)."""
        return len(self.hosts) or 1 if self.nodes is None else self.nodes

    @property
    def costs(self) -> bool:
        """Whether its nodes are paid for, or simulated as such in a rehearsal."""
        return self.resolved_provider in COSTLY

    def given(self, names: tuple[str, ...]) -> list[str]:
        """Return those of ``names`` that were given."""
        return [name for name in names if getattr(self, name) not in (None, ())]


@dataclass(frozen=True)
class Spelling:
    """The spelling of options in the caller's form.

    Args:
        name: Returns the spelling of a field.
        providers: The options that name a provider.
    """

    name: Callable[[str], str]
    providers: str


def problems(
    request: FleetRequest, spelling: Spelling, ranks: int | None = None
) -> Iterator[tuple[str, str]]:
    """Yield what is invalid: the field, and the sentence with the remedy.

    Args:
        ranks: The requested number of ranks.
    """
    yield from _provider_problems(request, spelling)
    if request.costs and request.nodes is None and (ranks or 0) > 1:
        yield (
            "ranks",
            f"{ranks} ranks need nodes; give their number with {spelling.name('nodes')}, "
            f"which is {ranks} with one rank on each.",
        )
    for name in request.given(("gpus", "vcpus", "slots", "nodes", "min_nodes", "max_nodes")):
        value, lowest = (
            getattr(request, name),
            1 if name in ("slots", "min_nodes", "max_nodes") else 0,
        )
        if not lowest <= value <= MAX_RANKS:
            text = f"must be a whole number from {lowest} to {MAX_RANKS}, not {value}."
            yield name, f"{spelling.name(name)} {text}"
    for name in request.given(_AMOUNTS):
        value = getattr(request, name)
        if not 0 <= value < math.inf:
            yield name, f"{spelling.name(name)} must be a number of at least 0, not {value:g}."
    if request.disk is not None and not SMALLEST_DISK <= request.disk <= LARGEST_DISK:
        yield (
            "disk",
            f"{spelling.name('disk')} must be from {SMALLEST_DISK} to {LARGEST_DISK} GiB, not "
            f"{request.disk}.",
        )
    if request.lease is not None and not SHORTEST_LEASE <= request.lease <= LONGEST_LEASE:
        yield (
            "lease",
            f"{spelling.name('lease')} must be from 1 minute to 24 hours, not {request.lease:g} s.",
        )
    if request.region and (sentence := _why_not(check_region, request.region)):
        yield "region", sentence
    for subnet in request.subnets or ():
        if sentence := _why_not(check_subnet, subnet):
            yield "subnets", sentence
    if request.image and request.image not in NAMES and not _IMAGE.fullmatch(request.image):
        yield (
            "image",
            f"{request.image!r} is not an image; give its id (ami-…), one of "
            f"{', '.join(NAMES)}, a parameter with an id (/…), or nothing to have one looked "
            "up.",
        )
    for name in request.given(("data", "output")):
        if sentence := _no_place(getattr(request, name)):
            yield name, sentence
    if request.snapshots and (sentence := _no_shared_place(request, spelling)):
        yield "snapshots", sentence
    if request.ssh_from is not None and (sentence := _why_not(check_ssh_source, request.ssh_from)):
        yield "ssh_from", sentence
    if request.prepare is not None and not request.prepare.strip():
        yield "prepare", "The prepare script is empty; leave it out, or fill it."


def fleet_wish(
    request: FleetRequest,
    spelling: Spelling,
    *,
    now: float,
    ttl: float = DEFAULT_TTL,
    ranks: int | None = None,
) -> FleetWish | None:
    """Return the wish; None for this machine alone.

    Args:
        ranks: The requested number of ranks.
        now: Epoch seconds.
        ttl: Default time to live of paid nodes in seconds.

    Raises:
        InputError: An option is invalid.
    """
    for _, sentence in problems(request, spelling, ranks):
        raise InputError(sentence)
    provider = request.resolved_provider
    if provider is Provider.THIS_MACHINE:
        return None
    lives = request.ttl if request.ttl is not None else (ttl if request.costs else 0.0)
    needed = {
        field.name: getattr(request, field.name)
        for field in fields(Needs)
        if getattr(request, field.name) is not None
    }
    return check_fleet(
        FleetWish(
            provider=provider,
            nodes=request.size,
            min_nodes=request.min_nodes or 1,
            max_nodes=request.max_nodes or 0,
            slots=request.slots or 0,
            hosts=request.hosts,
            needs=Needs(**needed),
            region=request.region or "",
            max_price=request.max_price or 0.0,
            budget=request.budget or 0.0,
            expires=now + lives if lives else 0.0,
            data=request.data or "",
            output=request.output or "",
            snapshots=request.snapshots or "",
            prepare=request.prepare or "",
            image=request.image or "",
            disk=request.disk or 0,
            cuda=request.cuda or False,
            ssh_from=str(check_ssh_source(request.ssh_from)) if request.ssh_from else "",
            lease=request.lease or LEASE_SECONDS,
            across_zones=bool(request.across_zones),
            link=request.link or 0.0,
            starts_early=request.min_nodes is not None and request.min_nodes < request.size,
        )
    )


def with_limits(
    fleet: FleetWish, request: FleetRequest, spelling: Spelling, now: float
) -> FleetWish | None:
    """Return the present nodes with another budget or time to live; None if more was asked for.

    Args:
        now: Epoch seconds.

    Raises:
        InputError: An option is invalid, or not for such nodes.
    """
    given = request.given(_ANY)
    if request.provider or request.hosts or not given or not {*given} <= {"budget", "ttl"}:
        return None
    asked = replace(request, provider=fleet.provider, hosts=fleet.hosts)
    for _, sentence in problems(asked, spelling):
        raise InputError(sentence)
    if request.budget is not None:
        fleet = replace(fleet, budget=request.budget)
    if request.ttl is not None:
        fleet = replace(fleet, expires=now + request.ttl if request.ttl else 0.0)
    return fleet


def is_raised(before: FleetWish, fleet: FleetWish) -> bool:
    """Return whether nodes may cost more than was confirmed: by their budget, or for ever.

    A longer time to live is no question, as for ``workbench extend``.
    """
    is_dearer = before.budget and not 0 < fleet.budget <= before.budget
    return bool(is_dearer or (before.expires and not fleet.expires))


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


def _why_not(check: Callable[[str], object], text: str) -> str:
    """Return why a text is invalid; empty if it is valid."""
    try:
        check(text)
    except InputError as error:
        return str(error)
    return ""


def _provider_problems(request: FleetRequest, spelling: Spelling) -> Iterator[tuple[str, str]]:
    provider = request.resolved_provider
    if request.hosts and provider is not Provider.HOSTS:
        yield (
            "hosts",
            f"Hosts were given, but the provider is {provider}; leave one of them out.",
        )
    if provider is Provider.THIS_MACHINE:
        for name in request.given(_ANY):
            yield (
                name,
                f"{spelling.name(name)} is about nodes; name their provider: {spelling.providers}.",
            )
    if (
        provider is not Provider.REHEARSAL
        and provider is not Provider.THIS_MACHINE
        and request.given(("link",))
    ):
        yield (
            "link",
            f"{spelling.name('link')} limits links of simulated nodes, not those of {provider}; "
            "leave it out.",
        )
    if provider is Provider.HOSTS:
        for name in request.given(_BOUGHT):
            yield (
                name,
                f"{spelling.name(name)} is about bought nodes, and your own hosts are not bought; "
                "leave it out.",
            )


def _no_place(place: str) -> str:
    """Return why a folder cannot be used; empty if it can."""
    try:
        parse_bucket(place) if is_bucket(place) else check_folder_name(place)
    except InputError as error:
        return str(error)
    return ""


def _no_shared_place(request: FleetRequest, spelling: Spelling) -> str:
    """Return why snapshots cannot be kept somewhere; empty if they can."""
    place, option = request.snapshots or "", spelling.name("snapshots")
    if sentence := _no_place(place):
        return sentence
    if is_bucket(place):
        return ""
    if request.resolved_provider is Provider.EC2:
        return f"{option}: nodes of EC2 share no folder; give s3://bucket/prefix, or leave it out."
    if not place.startswith("/"):
        return f"{option}: {place!r} is not an absolute path; give one that all nodes share."
    return ""


def check_fleet(fleet: FleetWish) -> FleetWish:
    """Return ``fleet`` if it is valid.

    Raises:
        InputError: A limit is invalid, or hosts are missing.
    """
    most = len(fleet.hosts) if fleet.provider is Provider.HOSTS else MAX_NODES
    if fleet.provider is Provider.HOSTS and not fleet.hosts:
        raise InputError(
            "No hosts were given", "write one on each line, as in 172.31.41.13 slots=1."
        )
    if not 0 <= fleet.nodes <= most:
        raise InputError(f"nodes must be from 0 to {most}, not {fleet.nodes}.")
    if fleet.nodes and not 1 <= fleet.min_nodes <= fleet.nodes:
        raise InputError(
            f"The minimum must be from 1 to {fleet.nodes} nodes, not {fleet.min_nodes}."
        )
    if fleet.max_nodes and not fleet.nodes <= fleet.max_nodes <= most:
        raise InputError(
            f"The maximum must be from {fleet.nodes} to {most} nodes, not {fleet.max_nodes}."
        )
    for name, value in (("max price", fleet.max_price), ("budget", fleet.budget)):
        if value < 0:
            raise InputError(f"The {name} must be at least $0, not ${value:g}.")
    return fleet
