"""Turn what a person typed about nodes into a fleet's wish, or say what does not belong together.

The command line and a job file have the same words; only how they spell them differs.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields

from workbench.core.doors import check_door
from workbench.core.fleet import FleetWish, Needs, Place
from workbench.core.fleetworld import check_fleet
from workbench.core.staging import check_folder_name, is_bucket, parse_bucket
from workbench.core.world import MAX_RANKS, Host
from workbench.errors import InputError

HOUR = 3600.0
DEFAULT_TTL = 8 * HOUR
DEFAULT_LIMIT = 7 * 24 * HOUR
"""For a job's run on nodes that cost, as a batch service has it."""
# From asking for the nodes until the run begins.
START_SECONDS = HOUR
COSTLY = frozenset({Place.EC2, Place.FAKE})
# What only makes sense where something is bought, and what any other machine's nodes may have.
_BOUGHT = (
    "gpus", "gpu_memory", "memory", "vcpus", "network", "types", "zones", "region", "max_price",
    "budget", "image", "ssh_from",
)  # fmt: skip
_ANY = ("nodes", "least", "most", "slots", "ttl", "data", "output", "prepare", "link", *_BOUGHT)
_AMOUNTS = ("gpu_memory", "memory", "network", "max_price", "budget", "ttl", "link")
_IMAGE = re.compile(r"ami-[0-9a-f]{8,17}|/\S+")
_REGION = re.compile(r"[a-z]{2,}(-[a-z]+)+-[0-9]")


@dataclass(frozen=True)
class FleetRequest:
    """What was typed; None is what was not said.

    Args:
        gpu_memory: GiB, as ``memory``.
        network: Gbit/s, sustained.
        max_price: $/h of all nodes together.
        budget: $ in all.
        ttl: Seconds until everything is deleted; 0 for never.
        prepare: The script's text.
        ssh_from: The network from which bought nodes let in ssh.
        link: Gbit/s that join a rehearsal's nodes.
    """

    where: Place | None = None
    hosts: tuple[Host, ...] = ()
    nodes: int | None = None
    least: int | None = None
    most: int | None = None
    slots: int | None = None
    gpus: int | None = None
    gpu_memory: float | None = None
    memory: float | None = None
    vcpus: int | None = None
    network: float | None = None
    types: tuple[str, ...] | None = None
    zones: tuple[str, ...] | None = None
    region: str | None = None
    max_price: float | None = None
    budget: float | None = None
    ttl: float | None = None
    data: str | None = None
    output: str | None = None
    prepare: str | None = None
    image: str | None = None
    ssh_from: str | None = None
    link: float | None = None

    @property
    def place(self) -> Place:
        """Where the nodes come from; hosts that are named say it themselves."""
        return self.where or (Place.HOSTS if self.hosts else Place.LOCAL)

    @property
    def size(self) -> int:
        """How many nodes there are to be; all hosts, or one, where nothing is said."""
        return len(self.hosts) or 1 if self.nodes is None else self.nodes

    @property
    def costs(self) -> bool:
        """Whether its nodes are paid for, be it in a rehearsal."""
        return self.place in COSTLY

    def said(self, names: tuple[str, ...]) -> list[str]:
        """Return those of ``names`` of which something was said."""
        return [name for name in names if getattr(self, name) not in (None, ())]


@dataclass(frozen=True)
class Spelling:
    """How whoever asks spells it.

    Args:
        name: Returns a field as it is typed.
        places: The ways to say where the nodes are.
    """

    name: Callable[[str], str]
    places: str


def problems(request: FleetRequest, spelling: Spelling) -> Iterator[tuple[str, str]]:
    """Give what will not do: the field, and the sentence with the remedy."""
    yield from _out_of_place(request, spelling)
    for name in request.said(("gpus", "vcpus", "slots", "nodes", "least", "most")):
        value, lowest = getattr(request, name), 1 if name in ("slots", "least", "most") else 0
        if not lowest <= value <= MAX_RANKS:
            text = f"must be a whole number from {lowest} to {MAX_RANKS}, not {value}."
            yield name, f"{spelling.name(name)} {text}"
    for name in request.said(_AMOUNTS):
        value = getattr(request, name)
        if not 0 <= value < math.inf:
            yield name, f"{spelling.name(name)} must be a number from 0 up, not {value:g}."
    if request.region and not _REGION.fullmatch(request.region):
        yield "region", f"{request.region!r} is not a region; write one such as us-east-1."
    if request.image and not _IMAGE.fullmatch(request.image):
        yield (
            "image",
            f"{request.image!r} is not an image; give its id (ami-…), the parameter that holds "
            "one (/…), or nothing to have one looked up.",
        )
    for name in request.said(("data", "output")):
        if sentence := _no_place(getattr(request, name)):
            yield name, sentence
    if request.ssh_from is not None and (sentence := _no_door(request.ssh_from)):
        yield "ssh_from", sentence
    if request.prepare is not None and not request.prepare.strip():
        yield "prepare", "The script that prepares a node is empty; leave it out, or fill it."


def fleet_wish(
    request: FleetRequest, spelling: Spelling, *, now: float, ttl: float = DEFAULT_TTL
) -> FleetWish | None:
    """Return the wish; None for this machine alone.

    Args:
        now: Epoch seconds.
        ttl: Seconds to live for nodes that cost, where nothing is said.

    Raises:
        InputError: Something will not do.
    """
    for _, sentence in problems(request, spelling):
        raise InputError(sentence)
    place = request.place
    if place is Place.LOCAL:
        return None
    lives = request.ttl if request.ttl is not None else (ttl if request.costs else 0.0)
    needed = {
        field.name: getattr(request, field.name)
        for field in fields(Needs)
        if getattr(request, field.name) is not None
    }
    return check_fleet(
        FleetWish(
            place=place,
            nodes=request.size,
            least=request.least or 1,
            most=request.most or 0,
            slots=request.slots or 0,
            hosts=request.hosts,
            needs=Needs(**needed),
            region=request.region or "",
            most_price=request.max_price or 0.0,
            budget=request.budget or 0.0,
            expires=now + lives if lives else 0.0,
            data=request.data or "",
            output=request.output or "",
            prepare=request.prepare or "",
            image=request.image or "",
            ssh_from=str(check_door(request.ssh_from)) if request.ssh_from else "",
            link=request.link or 0.0,
        )
    )


def _no_door(text: str) -> str:
    """Return why ssh cannot be let in from there."""
    try:
        check_door(text)
    except InputError as error:
        return str(error)
    return ""


def _out_of_place(request: FleetRequest, spelling: Spelling) -> Iterator[tuple[str, str]]:
    place = request.place
    if request.hosts and place is not Place.HOSTS:
        yield (
            "hosts",
            f"Hosts were named, but the nodes are to come from {place}; leave one of them out.",
        )
    if place is Place.LOCAL:
        for name in request.said(_ANY):
            yield (
                name,
                f"{spelling.name(name)} is about nodes; say where they come from: "
                f"{spelling.places}.",
            )
    if place is not Place.FAKE and place is not Place.LOCAL and request.said(("link",)):
        yield (
            "link",
            f"{spelling.name('link')} slows the links of pretended nodes, and those of {place} "
            "are as fast as they are; leave it out.",
        )
    if place is Place.HOSTS:
        for name in request.said(_BOUGHT):
            yield (
                name,
                f"{spelling.name(name)} is about what is bought, and hosts of your own are not; "
                "leave it out.",
            )


def _no_place(place: str) -> str:
    """Return why nothing can be there."""
    try:
        parse_bucket(place) if is_bucket(place) else check_folder_name(place)
    except InputError as error:
        return str(error)
    return ""
