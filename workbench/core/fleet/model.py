"""The nodes of a cluster: desired state, offers, and observed state, as values."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from workbench.core.world.world import Host

# The role, and its instance profile, that nodes get who read or write a bucket.
NODE_ROLE = "workbench-node"
# A laptop may sleep for a while, and nobody pays for a night.
LEASE_SECONDS = 1800.0


class Provider(StrEnum):
    """Where a cluster's nodes come from."""

    THIS_MACHINE = "local"
    HOSTS = "hosts"
    EC2 = "ec2"
    REHEARSAL = "rehearsal"


# As a sentence says it: a cluster is on this machine, or in a rehearsal.
LOCATED = {
    Provider.THIS_MACHINE: "on this machine",
    Provider.HOSTS: "on ssh hosts",
    Provider.EC2: "on EC2 spot nodes",
    Provider.REHEARSAL: "in a rehearsal",
}


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
    """What each node must have at least; nothing asked for is nothing needed.

    Args:
        gpu_memory: GiB of each GPU.
        memory: GiB.
        network: Gbit/s that the network sustains, not what it can do for a moment.
        types: Names of the only types that will do; empty for any.
        zones: Names of the only zones that will do; empty for any.
        subnets: Ids of the only subnets that will do, one a zone; empty for the default ones.
    """

    gpus: int = 0
    gpu_memory: float = 0.0
    memory: float = 0.0
    vcpus: int = 0
    network: float = 0.0
    types: tuple[str, ...] = ()
    zones: tuple[str, ...] = ()
    subnets: tuple[str, ...] = ()


@dataclass(frozen=True)
class FleetWish:
    """What a person asked for.

    Args:
        nodes: How many; 0 keeps the definition and pays nothing.
        provider: Where the nodes come from.
        min_nodes: Below as many nothing is started, and a world is not continued.
        max_nodes: Waiting runs may let the fleet grow up to as many; 0 when it is not to grow.
        slots: Ranks a node; 0 for one a GPU, or one a core where there is no GPU.
        hosts: The machines, where the provider is ``hosts``.
        region: Where to buy.
        max_price: $/h that all nodes together may cost; 0 for no bound.
        budget: $ that the cluster may cost in all; 0 for no bound.
        expires: Epoch seconds at which everything is deleted; 0 for never.
        data: A folder or ``s3://bucket/prefix`` that every node gets before it may join.
        output: A folder or ``s3://bucket/prefix`` that takes results, snapshots and logs.
        prepare: A shell script that each node runs before it may join.
        image: An image of the reader's own; empty for one that is looked up.
        disk: GiB of each node's root volume; 0 for the usual size. The image may need more.
        cuda: Whether nodes get CuPy and NCCL, which this computer's environment may lack.
        ssh_from: The network, such as ``203.0.113.7/32``, from which nodes let in ssh; empty
            where this computer is in their own.
        lease: Seconds after which a node ends itself when it hears nothing of this computer.
        across_zones: Whether nodes may be added in another zone than that of those that are there;
            traffic between zones is billed.
        link: Gbit/s to which a rehearsal holds each rank's connection to one of another node; 0
            for what this machine can.
    """

    provider: Provider = Provider.THIS_MACHINE
    nodes: int = 1
    min_nodes: int = 1
    max_nodes: int = 0
    slots: int = 0
    hosts: tuple[Host, ...] = ()
    needs: Needs = Needs()
    region: str = ""
    max_price: float = 0.0
    budget: float = 0.0
    expires: float = 0.0
    data: str = ""
    output: str = ""
    prepare: str = ""
    image: str = ""
    disk: int = 0
    cuda: bool = False
    ssh_from: str = ""
    lease: float = LEASE_SECONDS
    across_zones: bool = False
    link: float = 0.0

    @property
    def role(self) -> str:
        """Name of the role that its nodes need; empty where they need no right in AWS."""
        needs_one = any(place.startswith("s3://") for place in (self.data, self.output))
        return NODE_ROLE if self.provider is Provider.EC2 and needs_one else ""


@dataclass(frozen=True)
class Node:
    """One node, as it was last seen.

    Args:
        id: The place's own name of it; a host's address where it has none.
        address: By which the other nodes reach it.
        slots: Ranks it carries without oversubscription; 0 while unknown.
        price: $/h now; 0 where it is free.
        spent: $ so far.
        launched: Epoch seconds at which paying began; 0 before.
        ended: Epoch seconds at which it was gone; 0 before.
        head: Whether mpiexec runs on it; elected once.
        message: One sentence for the reader: what it waits for, or why it is gone.
        since: Epoch seconds at which it came into its state.
        failed: Whether it did not come up, or could not be prepared; ``message`` says why.
        network: Gbit/s that it sustains; 0 when unknown.
        flow: Gbit/s of these that one connection gets; 0 where it gets all.
        beside: $/h of what is billed beside the machine: its disk, its public address. ``price``
            has it too.
        traffic: $ so far for what it sent out of the place, estimated. ``spent`` has it too.
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
    beside: float = 0.0
    traffic: float = 0.0


@dataclass(frozen=True)
class Offer:
    """One type of machine in one zone.

    Args:
        price: $/h of one, spot, now.
        memory: GiB.
        gpu: Name of the GPU, or empty.
        gpu_memory: GiB of each GPU.
        network: Gbit/s that it sustains (the baseline).
        burst: Gbit/s that it can do for a moment; what the vendor advertises.
        history: Spot prices: epoch seconds and $/h, oldest first.
        quota: vCPUs of this class that the account may still start; None when unknown.
        slots: Ranks that it carries; 0 for one a GPU, or one for two vCPUs.
        flow: Gbit/s that one TCP connection between two of them gets, as close together as they
            can be; 0 for all that the network sustains.
        placement: Whether nodes of it can be asked for close together.
        sustained: Share of its vCPUs' time that it computes without end: below 1 a burstable or
            flexible type slows down to it.
        has_driver: Whether the image that is looked up drives its accelerators; True where it has
            none.
        beside: $/h of what is billed beside each: its disk, its public address.
        has_address: Whether each gets a public IPv4 address, which ``beside`` has.
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
    slots: int = 0
    flow: float = 0.0
    placement: bool = True
    sustained: float = 1.0
    has_driver: bool = True
    beside: float = 0.0
    has_address: bool = False

    @property
    def hour(self) -> float:
        """$/h of one, with all that is billed beside it."""
        return self.price + self.beside


@dataclass(frozen=True)
class Purchase:
    """One call that buys nodes; written down before it is made.

    Args:
        token: Makes a repeated call the same call.
        rung: Number of the ladder's rung, from 0.
        count: Nodes to buy; fewer than ``min_nodes`` are not taken.
        types: Any of them will do, but all nodes get the same.
        zone: The one zone; empty for whichever has capacity.
        placement: Whether the nodes are to stand close together.
        max_price: $/h of one node.
    """

    cluster: str
    token: str
    rung: int
    count: int
    min_nodes: int
    types: tuple[str, ...]
    zone: str = ""
    placement: bool = False
    max_price: float = 0.0


class MachineState(StrEnum):
    """Where a machine stands, as the place says."""

    PENDING = "pending"
    RUNNING = "running"
    STOPPING = "stopping"
    GONE = "gone"


@dataclass(frozen=True)
class Machine:
    """One machine, as the place that provides it sees it.

    Args:
        address: Private, numeric; empty before it is known.
        reach: By which this computer reaches it by ssh; empty before it is known.
        tags: All of them.
        reason: Why it is gone, in the place's words.
        interrupted: Whether the place took it back.
        network: Gbit/s that it sustains; 0 when unknown.
        flow: Gbit/s of these that one connection gets; 0 where it gets all.
        beside: $/h of what is billed beside it: its disk, its public address; 0 when unknown.
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
    beside: float = 0.0


@dataclass(frozen=True)
class Leftover:
    """Something with our tags.

    Args:
        kind: As a person says it: ``instance``, ``security group``, ``key pair``, ``volume``,
            ``launch template``, ``placement group``, ``fleet``.
        price: $/h that it costs; 0 when it is free.
        created: Epoch seconds; 0 when unknown.
        owner: Whose it is, as an id; empty when nobody said.
    """

    kind: str
    id: str
    cluster: str
    region: str = ""
    price: float = 0.0
    created: float = 0.0
    owner: str = ""
