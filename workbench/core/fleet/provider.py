"""Describe what a provider of nodes is, and find those that are installed.

Each provider has an entry point of the group ``workbench.providers``, which names its description.
Everything outside of a provider's own package asks the description, and nothing else: it is values
and arithmetic, so that a page or a command reads it without the provider's client. The client is in
the provider's *adapter*, which only the processes that use it import.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import TYPE_CHECKING, Any, Protocol

from workbench.core.fleet.form import COMMON, FormField, S, Settings, SettingValue
from workbench.core.option import Option
from workbench.errors import InputError

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint


GROUP = "workbench.providers"
# The distribution whose providers are looked up first, so that no other one can replace them.
OWN = "dist-workbench"
# A cluster without a provider of nodes.
LOCAL = "local"

# Options about nodes of any provider, and those about nodes that are bought.
NODE_OPTIONS = frozenset(
    {
        "nodes", "min_nodes", "max_nodes", "slots", "ttl", "idle", "data", "output", "snapshots",
        "prepare",
    }
)  # fmt: skip
BOUGHT_OPTIONS = frozenset(
    {
        "gpus", "gpu_memory", "memory", "vcpus", "network", "types", "zones", "max_price", "budget",
        "across_zones",
    }
)  # fmt: skip


class Wished(Protocol):
    """What a description reads of the wished nodes, a ``FleetWish``."""

    @property
    def output(self) -> str:
        """Where files of runs are copied to."""
        ...

    @property
    def snapshots(self) -> str:
        """Where copies of snapshots are kept; empty for this computer."""
        ...

    @property
    def across_zones(self) -> bool:
        """Whether nodes may be in several zones."""
        ...

    def setting(self, name: str, default: S) -> S:
        """Return a setting of the provider's own."""
        ...


@dataclass(frozen=True)
class Provider:
    """What a provider of nodes is; a subclass in its package decides what depends on a request.

    Args:
        name: Its name in stores, job files and options; that of its entry point.
        label: Its name in tables and forms, such as ``EC2``.
        located: As part of a sentence: a cluster is ``on ssh hosts``.
        summary: The help of its option, one short sentence.
        adapter: ``module:name`` of a function that takes a ``ClusterContext`` and returns a
            ``NodeProvider``; empty if there is only this machine.
        flag: The option of commands that chooses it; without one, ``--provider NAME`` does.
        order: Its place in lists; equal ones are sorted by name.
        is_remote: Whether its nodes are other machines, whose files and processes are not this
            machine's.
        lists_hosts: Whether its nodes are hosts that the user lists. They are never bought or
            ended.
        is_priced: Whether an hour of a node has a price, in $.
        is_paid: Whether this price is paid; otherwise it is simulated.
        unit: In what its nodes are charged in place of $, such as ``core-hours``; empty otherwise.
        queues: Whether nodes are waited for in a queue; its dry run then says until when.
        credited_seconds: A node that the provider interrupts within so many seconds is free.
        zone_price: $ per GB between two of its zones, for both the sender and the receiver.
        notice: Seconds from an interruption notice until a node is taken back; 0 if it is never
            interrupted.
        shares_folder: Whether its nodes may have a folder in common.
        copies_environment: Whether nodes get a copy of this computer's environment; otherwise they
            have their own.
        common: The common options about nodes that it takes, by their names in ``FleetRequest``.
        unasked: More common options that it takes, and its form leaves out.
        fields: Its own settings: options of commands and job files that its form asks for beside
            the common ones; see ``core.fleet.form``.
        rehearses: Whether it takes the settings of other providers too, without effect, so that a
            command for them can be tried as it is.
        examines: Whether its adapter examines nodes for ``workbench doctor``.
        program: The program that this machine uses it by: where it is installed, ``workbench
            doctor`` examines it without a cluster too.
        admits_ssh: Whether its adapter says from which network nodes accept ssh.
        bakes: Whether it makes images of nodes.
        reclaims: Whether it takes back a node on request, for a test.
        has_policy: Whether it prints policies for the person's and the nodes' permissions.
        caution: A sentence to read before nodes are bought.
    """

    name: str
    label: str
    located: str
    summary: str
    adapter: str = ""
    flag: str = ""
    order: int = 50
    is_remote: bool = True
    lists_hosts: bool = False
    is_priced: bool = False
    is_paid: bool = False
    unit: str = ""
    queues: bool = False
    credited_seconds: float = 0.0
    zone_price: float = 0.0
    notice: float = 0.0
    shares_folder: bool = True
    copies_environment: bool = False
    common: frozenset[str] = NODE_OPTIONS
    unasked: frozenset[str] = frozenset()
    fields: tuple[FormField, ...] = ()
    rehearses: bool = False
    examines: bool = False
    program: str = ""
    admits_ssh: bool = False
    bakes: bool = False
    reclaims: bool = False
    has_policy: bool = False
    caution: str = ""

    def __repr__(self) -> str:
        return f"<Provider {self.name}>"

    @property
    def has_nodes(self) -> bool:
        """Whether its clusters have nodes, rather than this machine alone."""
        return bool(self.adapter)

    @property
    def knows_slots(self) -> bool:
        """Whether the ranks that its nodes carry are known before anything starts."""
        return not self.has_nodes or self.lists_hosts

    @property
    def form(self) -> tuple[FormField, ...]:
        """What its form asks beside the number of nodes."""
        asked = (one for one in COMMON if one.name in self.common)
        if self.unit:
            asked = (replace(one, label=one.label.replace("$", self.unit)) for one in asked)
        return (*asked, *self.fields)

    @property
    def options(self) -> frozenset[str]:
        """The common options about nodes that it takes."""
        return self.common | self.unasked

    @property
    def is_charged(self) -> bool:
        """Whether an hour of a node has a price, in $ or in its own unit."""
        return self.is_priced or bool(self.unit)

    @property
    def asks_first(self) -> bool:
        """Whether more nodes are asked for only once a person has agreed to what they cost."""
        return self.is_charged and not self.is_simulated

    @property
    def is_simulated(self) -> bool:
        """Whether its nodes have a price that is not paid."""
        return self.is_priced and not self.is_paid

    @property
    def costs(self) -> str:
        """The verb for what nodes have cost."""
        return "would have cost" if self.is_simulated else "cost"

    def problems(
        self,
        given: Iterable[str],
        settings: Iterable[tuple[str, SettingValue]],
        spelling: Callable[[str], str],
    ) -> Iterator[tuple[str, str]]:
        """Yield what it cannot do of a request: the option, and the sentence with the remedy.

        Args:
            given: The common options about nodes that were given.
            settings: Those of the provider's own, and of others.
            spelling: Returns the spelling of an option.
        """
        for name in given:
            if name not in self.options:
                yield name, f"{spelling(name)} does not apply to {self.label}; leave it out."
        for name, value in settings:
            try:
                self._read(name, value, spelling)
            except InputError as error:
                yield name, str(error)

    def read_settings(self, given: Settings, before: Settings = ()) -> Settings:
        """Return settings with their values, by name.

        Args:
            before: Those of nodes that are asked for again; some of them are kept.

        Raises:
            InputError: One is not valid.
        """
        kept = tuple((name, value) for name, value in before if name in self.kept_settings)
        return self.change_settings(kept, given)

    @property
    def kept_settings(self) -> frozenset[str]:
        """The names of the settings that stay when nodes are asked for again."""
        return frozenset(one.name for one in self._settings.values() if one.option.is_kept)

    def change_settings(self, before: Settings, given: Settings) -> Settings:
        """Return settings with other values for those that are given, by name.

        Raises:
            InputError: One is not valid.
        """
        values = dict(before) | {name: self._read(name, value) for name, value in given}
        return tuple(sorted(values.items()))

    def policy(self, principal: str, store: str = "") -> tuple[str, tuple[str, ...]]:
        """Return the policy of a principal, and the commands that create its role.

        Args:
            principal: ``person``, ``node`` or ``baker``.
            store: ``s3://bucket/prefix`` of the nodes; empty leaves it for a person to fill in.

        Raises:
            InputError: The provider has no policies.
        """
        raise InputError(f"There are no policies {self.located}", "choose another provider.")

    # -- what depends on the nodes that are wished

    def traffic_price(self, wish: Wished) -> float:
        """Return the $ per GB for traffic from these nodes to this computer."""
        return 0.0

    def traffic_notes(self, wish: Wished) -> list[str]:
        """Return sentences on the traffic that is billed beside the nodes' price."""
        return []

    def image_of(self, wish: Wished, gpus: bool) -> tuple[str, str]:
        """Return the Python version and the title of the image that nodes boot; empty if unknown.

        Args:
            gpus: Whether the nodes have GPUs.
        """
        return "", ""

    def image_terms(self, wish: Wished) -> str:
        """Return what an image that is made of a node costs, as a sentence."""
        return ""

    def limits_drivers(self, wish: Wished) -> bool:
        """Return whether nodes boot an image of the provider's, with the drivers that it has."""
        return True

    def relays(self, wish: Wished) -> bool:
        """Return whether nodes cannot log in to each other, so that this computer does it."""
        return False

    def link(self, wish: Wished) -> float:
        """Return the limit in Gbit/s on a rank's connection to one of another node; 0 for none."""
        return 0.0

    # -- where supervisors run

    def moves(self, settings: Settings) -> bool:
        """Return whether settings ask for supervisors on a machine of its own, not on this one."""
        return False

    def move(self, settings: Settings, say: Callable[[str], object]) -> None:
        """Take the machine on which supervisors are to run, and wait for it.

        Args:
            say: Shows a sentence.

        Raises:
            CloudError: It is refused.
            MachineError: It has ended at once.
        """

    def run_elsewhere(self, words: Sequence[str]) -> None:
        """Run a command on the machine of the supervisors; return only if that is this one.

        Raises:
            StateError: It is not there yet.
        """

    # -- inside

    def _read(
        self, name: str, value: SettingValue, spelling: Callable[[str], str] = str
    ) -> SettingValue:
        if found := self._settings.get(name):
            return found.read(value, spelling)
        if name in own_fields():
            raise InputError(f"{spelling(name)} does not apply to {self.label}", "leave it out.")
        has = ", ".join(one.name for one in self.fields) or "none"
        raise InputError(f"{self.label} has no setting {name!r}", f"it has: {has}.")

    @property
    def _settings(self) -> dict[str, FormField]:
        return (own_fields() if self.rehearses else {}) | {one.name: one for one in self.fields}


@cache
def find_provider(name: str) -> Provider:
    """Return an installed provider by its name.

    Raises:
        InputError: It is not installed.
    """
    # To read one distribution takes 3 ms, and to read all of a usual environment 10 ms.
    entry = _find_own().get(name) or _find_installed().get(name)
    if entry is None:
        known = ", ".join(provider_names())
        raise InputError(
            f"Provider {name!r} is not installed",
            f"install the package that has it, or choose one of {known}.",
        )
    return _load(entry)


def choose_provider(given: Mapping[str, Any]) -> str:
    """Return the name of the provider that options choose; empty without one.

    Args:
        given: The options of a command, with ``provider``, the providers' flags, and ``hosts``.

    Raises:
        InputError: They choose several.
    """
    chosen = [place for place in known_providers() if place.flag and given.get(place.flag)]
    if given.get("provider"):
        chosen.append(find_provider(given["provider"]))
    if given.get("hosts"):
        chosen.append(find_provider(listing_provider()))
    if len({place.name for place in chosen}) > 1:
        raise InputError(
            "A cluster has one provider",
            f"keep one of {chosen[0].label} and {chosen[1].label}.",
        )
    return chosen[0].name if chosen else ""


def own_fields() -> dict[str, FormField]:
    """Return the settings of all installed providers, by name; the first that has one declares it.

    A name that two providers have is one option, which each of them checks.
    """
    return {one.name: one for place in known_providers()[::-1] for one in place.fields[::-1]}


def own_options() -> Iterator[Option]:
    """Yield the options that give the settings of all installed providers."""
    fields = dict.fromkeys(one.name for place in known_providers() for one in place.fields)
    yield from (own_fields()[name].option for name in fields)


def provider_names() -> list[str]:
    """Return the names of all installed providers."""
    return [place.name for place in known_providers()]


def priced_providers() -> list[Provider]:
    """Return those with a flag whose nodes have a price, paid or simulated."""
    return [place for place in known_providers() if place.flag and place.is_priced]


def simulated_providers() -> list[Provider]:
    """Return those with a flag whose nodes have a price that is not paid."""
    return [place for place in priced_providers() if place.is_simulated]


def provider_option(place: Provider) -> str:
    """Return the option of commands that chooses a provider."""
    if place.lists_hosts:
        return "--hosts FILE, --host ADDRESS"
    return f"--{place.flag}" if place.flag else f"--provider {place.name}"


def example_options() -> tuple[str, str]:
    """Return the options of a provider that is paid, and of one that is not, for examples."""
    paid, simulated = (
        next(
            (provider_option(place) for place in priced_providers() if place.is_paid is is_paid), ""
        )
        for is_paid in (True, False)
    )
    return paid, simulated


def provider_choices(
    is_meant: Callable[[Provider], bool], spell: Callable[[Provider], str] = provider_option
) -> str:
    """Return how to choose one of the providers that are meant, as part of a sentence."""
    found = [spell(place) for place in known_providers() if is_meant(place)]
    return " or ".join(filter(None, [", ".join(found[:-1]), *found[-1:]]))


@cache
def listing_provider() -> str:
    """Return the name of the provider of hosts that a user lists."""
    return next(provider.name for provider in known_providers() if provider.lists_hosts)


@cache
def known_providers() -> tuple[Provider, ...]:
    """Return all installed providers, in their order."""
    found = [_load(entry) for entry in (_find_installed() | _find_own()).values()]
    return tuple(sorted(found, key=lambda provider: (provider.order, provider.name)))


def _load(entry: EntryPoint) -> Provider:
    provider = entry.load()
    if not isinstance(provider, Provider) or provider.name != entry.name:
        raise InputError(
            f"Entry point {entry.name!r} of {GROUP} names {entry.value}, which is no provider of "
            "that name",
            "update the package that has it, or remove it.",
        )
    return provider


@cache
def _find_own() -> dict[str, EntryPoint]:
    from importlib.metadata import PackageNotFoundError, distribution  # slow to load

    try:
        return _by_name(distribution(OWN).entry_points.select(group=GROUP))
    except PackageNotFoundError:
        return {}


@cache
def _find_installed() -> dict[str, EntryPoint]:
    from importlib.metadata import entry_points

    return _by_name(entry_points(group=GROUP))


def _by_name(entries: Iterable[EntryPoint]) -> dict[str, EntryPoint]:
    return {entry.name: entry for entry in entries}
