"""The nodes of a cluster: desired state, offers, and observed state, as values."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from workbench.core.fleet.form import S, Settings
from workbench.core.fleet.provider import LOCAL, Provider, find_provider
from workbench.core.world.world import Host


class NodeState(StrEnum):
    """The state of a node, in the order in which a node goes through them."""

    ASKED = "asked"
    BOOTING = "booting"
    VERIFIED = "verified"
    READY = "data ready"
    JOINED = "joined"
    LEAVING = "leaving"
    GONE = "gone"


COMING = frozenset({NodeState.ASKED, NodeState.BOOTING, NodeState.VERIFIED})
"""States in which a node cannot carry ranks yet."""


@dataclass(frozen=True)
class Needs:
    """The requirements on each node; an empty one requires nothing.

    Args:
        gpu_memory: GiB of each GPU.
        memory: GiB.
        network: Gbit/s that the network sustains, not a short burst.
        types: The only allowed types; empty for any.
        zones: The only allowed zones; empty for any.
    """

    gpus: int = 0
    gpu_memory: float = 0.0
    memory: float = 0.0
    vcpus: int = 0
    network: float = 0.0
    types: tuple[str, ...] = ()
    zones: tuple[str, ...] = ()


@dataclass(frozen=True)
class FleetWish:
    """The desired state of a fleet.

    Args:
        nodes: How many; 0 keeps the definition and costs nothing.
        provider: Name of the provider of the nodes.
        min_nodes: With fewer, nothing is started, and no world is continued.
        max_nodes: The fleet may grow to so many for waiting runs; 0 if it may not grow.
        slots: Ranks per node; 0 for one per GPU, or one per core without GPUs.
        hosts: The machines, if the user lists them.
        region: Where to buy.
        max_price: Limit in $/h for all nodes together; 0 for no limit.
        most_price: Limit in $/h for each node, as the price was confirmed; 0 for no limit.
        budget: Limit in $ for the cluster's whole life; 0 for no limit.
        expires: Epoch seconds at which everything is deleted; 0 for never.
        idle: Seconds with nothing to do after which all nodes are given back; 0 for never.
        asked: Epoch seconds at which the nodes were last asked for, or kept.
        agreed: $/h for all nodes that was agreed to; 0 if none was asked about.
        data: A folder or ``s3://bucket/prefix`` that every node gets before it may join.
        output: A folder or ``s3://bucket/prefix`` for results and logs.
        snapshots: A folder that all nodes share, or ``s3://bucket/prefix``, for copies of
            snapshots; empty for this computer.
        prepare: A shell script that each node runs before it may join.
        across_zones: Whether nodes may be added in another zone than that of the existing ones;
            traffic between zones is billed.
        starts_early: Whether a world starts with ``min_nodes`` while the other nodes boot.
        settings: The provider's own settings that were given, by name.
    """

    provider: str = LOCAL
    nodes: int = 1
    min_nodes: int = 1
    max_nodes: int = 0
    slots: int = 0
    hosts: tuple[Host, ...] = ()
    needs: Needs = Needs()
    region: str = ""
    max_price: float = 0.0
    most_price: float = 0.0
    budget: float = 0.0
    expires: float = 0.0
    idle: float = 0.0
    asked: float = 0.0
    agreed: float = 0.0
    data: str = ""
    output: str = ""
    snapshots: str = ""
    prepare: str = ""
    across_zones: bool = False
    starts_early: bool = False
    settings: Settings = ()

    @property
    def place(self) -> Provider:
        """The provider of the nodes.

        Raises:
            InputError: It is not installed.
        """
        return find_provider(self.provider)

    def setting(self, name: str, default: S) -> S:
        """Return a setting of the provider's own, of the type that its field reads."""
        given: dict[str, Any] = dict(self.settings)
        value: S = given.get(name, default)
        return value


@dataclass(frozen=True)
class Node:
    """The observed state of one node.

    Args:
        id: The provider's own id; a host's address if there is none.
        address: The address for the other nodes.
        slots: Ranks that it carries without oversubscription; 0 while unknown.
        price: $/h now; 0 if it is free.
        spent: $ so far.
        launched: Epoch seconds at which billing began; 0 before.
        ended: Epoch seconds at which it was gone; 0 before.
        head: Whether mpiexec runs on it; elected once.
        message: One sentence for the user: what it waits for, or why it is gone.
        since: Epoch seconds of its last change of state.
        failed: Whether it did not start, or could not be prepared; ``message`` has the reason.
        network: Gbit/s that it sustains; 0 if unknown.
        flow: Gbit/s of these for one connection; 0 for all.
        extra_price: $/h of what is billed beside the machine: its disk, its address. Included
            in ``price``.
        traffic: $ so far for its outbound traffic, estimated. Included in ``spent``.
        reclaimed: Epoch seconds at which the provider takes it back, by its interruption notice; 0
            without one.
    """

    id: str
    state: NodeState
    address: str = ""
    slots: int = 0
    type: str = ""
    zone: str = ""
    price: float = 0.0
    spent: float = 0.0
    launched: float = 0.0
    ended: float = 0.0
    head: bool = False
    message: str = ""
    since: float = 0.0
    failed: bool = False
    network: float = 0.0
    flow: float = 0.0
    extra_price: float = 0.0
    traffic: float = 0.0
    reclaimed: float = 0.0

    @property
    def is_going(self) -> bool:
        """Whether it leaves, or will: the provider takes it back."""
        return self.state is NodeState.LEAVING or bool(self.reclaimed)


@dataclass(frozen=True)
class Offer:
    """One type of machine in one zone.

    Args:
        price: Price of one in $/h, now.
        memory: GiB.
        gpu: Name of the GPU, or empty.
        gpu_memory: GiB of each GPU.
        network: Gbit/s that it sustains (the baseline).
        burst: Gbit/s of a short burst; the advertised value.
        history: Past prices: epoch seconds and $/h, oldest first.
        quota: vCPUs of its quota that the account may still start; None if unknown.
        quota_name: The quota that it counts against, which types of one kind share.
        slots: Ranks that it carries; 0 for one per GPU, or one per two vCPUs.
        flow: Gbit/s of one TCP connection between two of them, as close together as possible; 0
            for all that the network sustains.
        placement: Whether nodes of it can be requested close together.
        sustained: Share of its vCPUs' time that it can use forever: below 1, a burstable or
            flexible type slows down to it.
        has_driver: Whether the default image has a driver for its accelerators; True if it has
            none.
        is_current: Whether the provider still recommends it: its processors are not many years old.
        extra_price: $/h of what is billed beside each: its disk, its public address.
        address_price: Of these, for its public address.
    """

    type: str
    zone: str
    price: float
    vcpus: int
    memory: float
    gpus: int = 0
    gpu: str = ""
    gpu_memory: float = 0.0
    network: float = 0.0
    burst: float = 0.0
    history: tuple[tuple[float, float], ...] = ()
    quota: int | None = None
    quota_name: str = ""
    slots: int = 0
    flow: float = 0.0
    placement: bool = True
    sustained: float = 1.0
    has_driver: bool = True
    is_current: bool = True
    extra_price: float = 0.0
    address_price: float = 0.0

    @property
    def hour(self) -> float:
        """$/h of one, with everything that is billed beside it."""
        return self.price + self.extra_price


@dataclass(frozen=True)
class Purchase:
    """One call that buys nodes; recorded before it is made.

    Args:
        token: Identifies a repeated call as the same.
        number: Number of the candidate, from 0.
        count: Nodes to buy; fewer than ``min_nodes`` are not accepted.
        types: The allowed types; all nodes get the same one.
        zone: The only zone; empty for any with capacity.
        placement: Whether the nodes should be close together.
        max_price: $/h of one node.
    """

    cluster: str
    token: str
    number: int
    count: int
    min_nodes: int
    types: tuple[str, ...]
    zone: str = ""
    placement: bool = False
    max_price: float = 0.0


class MachineState(StrEnum):
    """The state of a machine as its provider reports it."""

    PENDING = "pending"
    RUNNING = "running"
    STOPPING = "stopping"
    GONE = "gone"


@dataclass(frozen=True)
class Machine:
    """One machine as its provider reports it.

    Args:
        address: Private, numeric; empty while unknown.
        reach: Its address for ssh from this computer; empty while unknown.
        tags: All of them.
        reason: Why it is gone, in the provider's words.
        interrupted: Whether the provider interrupted it.
        network: Gbit/s that it sustains; 0 if unknown.
        flow: Gbit/s of these for one connection; 0 for all.
        extra_price: $/h of what is billed beside it: its disk, its public address; 0 if unknown.
        waits: What it waits for in the provider's own queue, as a sentence: then it is awaited for
            as long as that takes.
    """

    id: str
    state: MachineState
    address: str = ""
    reach: str = ""
    type: str = ""
    zone: str = ""
    price: float = 0.0
    slots: int = 0
    launched: float = 0.0
    ended: float = 0.0
    token: str = ""
    tags: tuple[tuple[str, str], ...] = ()
    reason: str = ""
    interrupted: bool = False
    network: float = 0.0
    flow: float = 0.0
    extra_price: float = 0.0
    waits: str = ""


@dataclass(frozen=True)
class Leftover:
    """A resource with our tags.

    Args:
        kind: The user's word for it: ``instance``, ``security group``, ``key pair``, ``volume``,
            ``launch template``, ``placement group``, ``fleet``.
        price: Its cost in $/h; 0 if it is free.
        created: Epoch seconds; 0 if unknown.
        owner: Id of its owner; empty if unknown.
    """

    kind: str
    id: str
    cluster: str
    region: str = ""
    price: float = 0.0
    created: float = 0.0
    owner: str = ""
