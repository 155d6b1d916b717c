"""Turn the options about nodes into a fleet's wish; report invalid and contradictory ones.

The command line and a job file have the same options; only their spelling differs.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields, replace

from workbench.core.fleet.form import DEFAULT_IDLE, Settings
from workbench.core.fleet.model import FleetWish, Needs
from workbench.core.fleet.provider import LOCAL, Provider, find_provider, listing_provider
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
_AMOUNTS = ("gpu_memory", "memory", "network", "max_price", "budget", "ttl", "idle")


@dataclass(frozen=True)
class FleetRequest:
    """The options as given; None where an option is missing.

    Args:
        gpu_memory: GiB, like ``memory``.
        network: Gbit/s, sustained.
        max_price: $/h of all nodes together.
        budget: $ for the cluster's whole life.
        ttl: Time to live: seconds until everything is deleted; 0 for never.
        idle: Seconds with nothing to do after which the nodes are given back; 0 for never.
        prepare: The script's text.
        across_zones: Whether nodes may be added in another zone than that of the others.
        settings: The provider's own settings, by name.
    """

    provider: str = ""
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
    region: str | None = None
    max_price: float | None = None
    budget: float | None = None
    ttl: float | None = None
    idle: float | None = None
    data: str | None = None
    output: str | None = None
    snapshots: str | None = None
    prepare: str | None = None
    across_zones: bool | None = None
    settings: Settings = ()

    @property
    def place(self) -> Provider:
        """The provider; given hosts imply it."""
        return find_provider(self.provider or (listing_provider() if self.hosts else LOCAL))

    @property
    def options(self) -> list[str]:
        """The options about nodes that were given, with the settings of the provider's own."""
        common = self.find_given(tuple(field.name for field in fields(self)[2:-1]))
        return [*common, *(name for name, _ in self.settings)]

    @property
    def size(self) -> int:
        """The desired number of nodes (default: all hosts, or one)."""
        return len(self.hosts) or 1 if self.nodes is None else self.nodes

    @property
    def costs(self) -> bool:
        """Whether its nodes are charged for, or simulated as such in a rehearsal."""
        return self.place.is_charged

    @property
    def needs(self) -> Needs:
        """The requirements on each node."""
        names = self.find_given(tuple(field.name for field in fields(Needs)))
        return Needs(**{name: getattr(self, name) for name in names})

    def find_given(self, names: tuple[str, ...]) -> list[str]:
        """Return those of ``names`` that were given."""
        return [name for name in names if getattr(self, name) not in (None, ())]


@dataclass(frozen=True)
class Spelling:
    """The spelling of options in the caller's form.

    Args:
        name: Returns the spelling of a field.
        providers: Lists the options that name a provider.
    """

    name: Callable[[str], str]
    providers: Callable[[], str]


def problems(
    request: FleetRequest, spelling: Spelling, ranks: int | None = None
) -> Iterator[tuple[str, str]]:
    """Yield what is invalid: the field, and the sentence with the remedy.

    Args:
        ranks: The requested number of ranks.
    """
    yield from _provider_problems(request, spelling)
    yield from value_problems(request, spelling, ranks)


def value_problems(
    request: FleetRequest, spelling: Spelling, ranks: int | None = None
) -> Iterator[tuple[str, str]]:
    """Yield the values that are invalid for every provider; see ``problems``."""
    if request.costs and request.nodes is None and (ranks or 0) > 1:
        yield (
            "ranks",
            f"{ranks} ranks need nodes; give their number with {spelling.name('nodes')}, "
            f"which is {ranks} with one rank on each.",
        )
    for name in request.find_given(("gpus", "vcpus", "slots", "nodes", "min_nodes", "max_nodes")):
        value, lowest = (
            getattr(request, name),
            1 if name in ("slots", "max_nodes") else 0,
        )
        if not lowest <= value <= MAX_RANKS:
            text = f"must be a whole number from {lowest} to {MAX_RANKS}, not {value}."
            yield name, f"{spelling.name(name)} {text}"
    for name in request.find_given(_AMOUNTS):
        value = getattr(request, name)
        if not 0 <= value < math.inf:
            yield name, f"{spelling.name(name)} must be a number of at least 0, not {value:g}."
    if request.min_nodes == 0 and request.idle == 0:
        yield (
            "min_nodes",
            f"{spelling.name('min_nodes')} is 0, but {spelling.name('idle')} keeps all nodes; "
            "leave one of them out.",
        )
    for name in request.find_given(("data", "output")):
        if sentence := _no_place(getattr(request, name)):
            yield name, sentence
    if request.snapshots and (sentence := _no_shared_place(request, spelling)):
        yield "snapshots", sentence
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
    if not request.place.has_nodes:
        return None
    is_rented = not request.place.lists_hosts
    idle = DEFAULT_IDLE if is_rented or request.min_nodes == 0 else 0.0
    idle = idle if request.idle is None else request.idle
    lives = request.ttl if request.ttl is not None else (ttl if request.costs else 0.0)
    return check_fleet(
        FleetWish(
            provider=request.place.name,
            nodes=request.size,
            min_nodes=request.min_nodes or 1,
            max_nodes=request.max_nodes or 0,
            slots=request.slots or 0,
            hosts=request.hosts,
            needs=request.needs,
            region=request.region or "",
            max_price=request.max_price or 0.0,
            budget=request.budget or 0.0,
            expires=now + lives if lives else 0.0,
            idle=idle,
            asked=now,
            data=request.data or "",
            output=request.output or "",
            snapshots=request.snapshots or "",
            prepare=request.prepare or "",
            across_zones=bool(request.across_zones),
            settings=request.place.read_settings(request.settings),
            starts_early=request.min_nodes is not None and request.min_nodes < request.size,
        )
    )


def with_limits(
    fleet: FleetWish, request: FleetRequest, spelling: Spelling, now: float
) -> FleetWish | None:
    """Return the present nodes with other limits; None if more was asked for.

    Their budget, their time to live, their idle time, and settings that are kept, such as who may
    use ssh, change nothing that was bought.

    Args:
        now: Epoch seconds.

    Raises:
        InputError: An option is invalid, or not for such nodes.
    """
    given = request.options
    known = {"budget", "ttl", "idle"} | fleet.place.kept_settings
    if request.provider or request.hosts or not given or not {*given} <= known:
        return None
    asked = replace(request, provider=fleet.provider, hosts=fleet.hosts)
    for _, sentence in problems(asked, spelling):
        raise InputError(sentence)
    if request.budget is not None:
        fleet = replace(fleet, budget=request.budget)
    if request.ttl is not None:
        fleet = replace(fleet, expires=now + request.ttl if request.ttl else 0.0)
    if request.idle is not None:
        fleet = replace(fleet, idle=request.idle)
    return replace(fleet, settings=fleet.place.change_settings(fleet.settings, request.settings))


def is_raised(before: FleetWish, fleet: FleetWish) -> bool:
    """Return whether nodes may cost more than was confirmed: by their budget, or forever.

    A longer time to live is no question, as for ``workbench extend``.
    """
    is_dearer = before.budget and not 0 < fleet.budget <= before.budget
    return bool(is_dearer or (before.expires and not fleet.expires))


def _provider_problems(request: FleetRequest, spelling: Spelling) -> Iterator[tuple[str, str]]:
    place = request.place
    if request.hosts and not place.lists_hosts:
        yield (
            "hosts",
            f"Hosts were given, but the provider is {place.name}; leave one of them out.",
        )
    if place.has_nodes:
        own = dict(request.settings)
        given = [name for name in request.options if name not in own]
        yield from place.problems(given, request.settings, spelling.name)
        return
    for name in request.options:
        text = f"is about nodes; name their provider: {spelling.providers()}."
        yield name, f"{spelling.name(name)} {text}"


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
    if not request.place.shares_folder:
        return (
            f"{option}: nodes of {request.place.label} share no folder; give s3://bucket/prefix, "
            "or leave it out."
        )
    if not place.startswith("/"):
        return f"{option}: {place!r} is not an absolute path; give one that all nodes share."
    return ""


def check_fleet(fleet: FleetWish) -> FleetWish:
    """Return ``fleet`` if it is valid.

    Raises:
        InputError: A limit is invalid, or hosts are missing.
    """
    most = len(fleet.hosts) if fleet.place.lists_hosts else MAX_NODES
    if fleet.place.lists_hosts and not fleet.hosts:
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
            raise InputError(f"The {name} must be at least 0, not {value:g}.")
    return fleet
