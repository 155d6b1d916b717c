"""Describe the nodes of a cluster: what a person asks for, what could be lent, what is so."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from workbench.core.world import Host

# The role, and its instance profile, that nodes get who read or write a bucket.
NODE_ROLE = "workbench-node"


class Place(StrEnum):
    """Where a cluster's nodes come from."""

    LOCAL = "local"
    HOSTS = "hosts"
    EC2 = "ec2"
    FAKE = "rehearsal"


class NodeState(StrEnum):
    """Where one node stands, in the order in which a node goes through it."""

    ASKED = "asked"
    BOOTING = "booting"
    VERIFIED = "verified"
    READY = "data ready"
    JOINED = "joined"
    LEAVING = "leaving"
    GONE = "gone"


@dataclass(frozen=True)
class Needs:
    """What each node must have at least; nothing asked for is nothing needed.

    Args:
        gpu_memory: GiB of each GPU.
        memory: GiB.
        network: Gbit/s that the network sustains, not what it can do for a moment.
        types: Names of the only types that will do; empty for any.
        zones: Names of the only zones that will do; empty for any.
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
    """What a person asked for.

    Args:
        nodes: How many; 0 keeps the definition and pays nothing.
        least: Below as many nothing is started, and a world is not continued.
        most: Waiting runs may let the fleet grow up to as many; 0 when it is not to grow.
        slots: Ranks a node; 0 for one a GPU, or one a core where there is no GPU.
        hosts: The machines, where the place is ``hosts``.
        region: Where to buy.
        most_price: $/h that all nodes together may cost; 0 for no bound.
        budget: $ that the cluster may cost in all; 0 for no bound.
        expires: Epoch seconds at which everything is deleted; 0 for never.
        data: A folder or ``s3://bucket/prefix`` that every node gets before it may join.
        output: A folder or ``s3://bucket/prefix`` that takes results, snapshots and logs.
        prepare: A shell script that each node runs before it may join.
        image: An image of the reader's own; empty for one that is looked up.
        ssh_from: The network, such as ``203.0.113.7/32``, from which nodes let in ssh; empty
            where this computer is in their own.
        link: Gbit/s to which a rehearsal holds each rank's connection to one of another node; 0
            for what this machine can.
    """

    place: Place = Place.LOCAL
    nodes: int = 1
    least: int = 1
    most: int = 0
    slots: int = 0
    hosts: tuple[Host, ...] = ()
    needs: Needs = Needs()
    region: str = ""
    most_price: float = 0.0
    budget: float = 0.0
    expires: float = 0.0
    data: str = ""
    output: str = ""
    prepare: str = ""
    image: str = ""
    ssh_from: str = ""
    link: float = 0.0

    @property
    def role(self) -> str:
        """Name of the role that its nodes need; empty where they need no right in AWS."""
        needs_one = any(place.startswith("s3://") for place in (self.data, self.output))
        return NODE_ROLE if self.place is Place.EC2 and needs_one else ""


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


@dataclass(frozen=True)
class Purchase:
    """One call that buys nodes; written down before it is made.

    Args:
        token: Makes a repeated call the same call.
        rung: Number of the ladder's rung, from 0.
        count: Nodes to buy; fewer than ``least`` are not taken.
        types: Any of them will do, but all nodes get the same.
        zone: The one zone; empty for whichever has capacity.
        placement: Whether the nodes are to stand close together.
        most_price: $/h of one node.
    """

    cluster: str
    token: str
    rung: int
    count: int
    least: int
    types: tuple[str, ...]
    zone: str = ""
    placement: bool = False
    most_price: float = 0.0


class MachineState(StrEnum):
    """Where a machine stands, as the place says."""

    PENDING = "pending"
    RUNNING = "running"
    STOPPING = "stopping"
    GONE = "gone"


@dataclass(frozen=True)
class Machine:
    """One machine, as the place that lends it sees it.

    Args:
        address: Private, numeric; empty before it is known.
        reach: By which this computer reaches it by ssh; empty before it is known.
        tags: All of them.
        reason: Why it is gone, in the place's words.
        interrupted: Whether the place took it back.
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


@dataclass(frozen=True)
class Leftover:
    """Something that bears our tags.

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
