"""Query a provider in a program of its own.

Each query runs ``python -m workbench.cloud``, so that no caller imports a provider's client. It
takes as long as the provider, up to a deadline: use a thread.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, TypeVar

import msgspec

from workbench.core.cluster.model import DEFAULT_CLUSTER, ClusterWish, check_cluster_name
from workbench.core.fleet.model import FleetWish, Leftover, NodeState, Offer, Purchase
from workbench.core.fleet.node_provider import Sweep
from workbench.core.fleet.provider import (
    Provider,
    example_options,
    known_providers,
    listing_provider,
)
from workbench.core.fleet.spot_history import SpotHistory, read_history, schedule
from workbench.core.messages import BaseMessage, decode
from workbench.core.node.findings import Finding, judge_kept, judge_place
from workbench.core.node.host_findings import HostProbe
from workbench.core.world.world import Host, RankFact
from workbench.errors import CloudError, InputError, MachineError, StateError
from workbench.store.disk import RESERVE_NAME, disk_under
from workbench.store.paths import home_path, owner_id
from workbench.store.store import Store

T = TypeVar("T")
DAY = 86_400.0
HISTORY_SECONDS = 3 * DAY
MOST_NOTICE = 120.0  # seconds, as spot nodes have
_Findings = tuple[Finding, ...]
_Leftovers = tuple[Leftover, ...]
_ERRORS = {"InputError": InputError, "StateError": StateError, "MachineError": MachineError}


@dataclass(frozen=True)
class CloudMarket:
    """The offers of a provider.

    Args:
        region: The region searched, also when none was named.
        unit: What is charged in place of $; empty otherwise.
    """

    region: str
    offers: tuple[Offer, ...]
    unit: str = ""


def query_market(fleet: FleetWish, history_seconds: float = HISTORY_SECONDS) -> CloudMarket:
    """Return all offers that fit a fleet's requirements, cheapest first, with past prices.

    Args:
        fleet: Its region may be empty, for the default one. Its image, disk and ssh source count
            too: what is billed beside the machines depends on them.

    Raises:
        InputError: No region is configured.
        CloudError: The provider does not answer, or denies access.
        MachineError: The query could not be run.
    """
    return _ask(CloudMarket, fleet, "offers", 120, {"history_seconds": history_seconds})


def ask_permissions(fleet: FleetWish, purchase: Purchase) -> tuple[Finding, ...]:
    """Return the findings of a dry run of every call that the nodes need; nothing is bought."""
    return _ask(_Findings, fleet, "permissions", 180, {"purchase": purchase})


def ask_ssh_source(fleet: FleetWish) -> str:
    """Return the network from which rented nodes accept ssh.

    It is the requested one, by default this computer's address as the nodes see it.

    Raises:
        CloudError: It cannot be determined, or the provider does not answer.
    """
    return _ask(str, fleet, "ssh_source", 60)


def ask_contact(fleet: FleetWish, cluster: str = DEFAULT_CLUSTER) -> tuple[HostProbe, ...]:
    """Probe each host of a fleet; a host with an unknown key is not logged in to.

    Args:
        cluster: Its known hosts are used beside the user's own.
    """
    return _ask(tuple[HostProbe, ...], fleet, "contact", 120, cluster=cluster)


def ask_purge(fleet: FleetWish, cluster: str) -> None:
    """Remove all that a deleted cluster has installed on hosts that a user listed.

    Raises:
        MachineError: Some of them could not be reached.
    """
    _ask(object, fleet, "purge", 600, cluster=cluster)


def ask_host_doctor(hosts: Sequence[Host], cluster: str = DEFAULT_CLUSTER) -> list[Finding]:
    """Return the problems of hosts as one cluster; each finding names its host."""
    return ask_node_doctor(list_hosts(hosts), cluster)


def ask_node_doctor(fleet: FleetWish, cluster: str = DEFAULT_CLUSTER) -> list[Finding]:
    """Return the problems of nodes as one cluster; none where the provider examines no nodes."""
    if not fleet.place.examines:
        return []
    return [*_ask(_Findings, fleet, "examine", 300, cluster=cluster)]


def ask_doctor(cluster: str = DEFAULT_CLUSTER) -> list[Finding]:
    """Return the doctor's findings for this machine and the ranks of ``cluster``.

    Raises:
        MachineError: The doctor cannot run.
    """
    ranks: list[RankFact] = []
    ours: list[Finding] = []
    try:
        with Store() as store:
            ranks = store.ranks(cluster, store.cluster_fact(cluster).generation)
            ours += _examine_store(store)
    except MachineError as error:
        remedy = error.remedy[:1].upper() + error.remedy[1:]
        ours.append(Finding("store", False, error.what, remedy))
    options = ["--json", "--ranks", "-", "--data", str(home_path())]
    answer = subprocess.run(
        [sys.executable, "-m", "workbench.cluster.doctor", *options],
        input=json.dumps([asdict(rank) for rank in ranks]),
        capture_output=True,
        text=True,
        check=False,
    )
    if not answer.stdout.startswith("["):
        last = (answer.stderr.strip().splitlines() or ["without a word"])[-1]
        raise MachineError(f"The doctor ended: {last}", f"reinstall workbench into {sys.prefix}.")
    return [Finding(**item) for item in json.loads(answer.stdout)] + ours


def ask_doctors(cluster: str = DEFAULT_CLUSTER) -> list[Finding]:
    """Return the findings for this machine, the nodes of ``cluster``, and places that are here.

    Raises:
        MachineError: The doctor cannot run.
    """
    findings = ask_doctor(cluster)
    try:
        with Store() as store:
            wish = store.cluster_wish(cluster)
    except MachineError:
        return findings  # whose findings include the store
    fleets = [] if wish is None else [wish.fleet]
    known = {fleet.provider for fleet in fleets}
    fleets += [
        FleetWish(place.name)
        for place in known_providers()
        if place.program and place.name not in known and shutil.which(place.program)
    ]
    return findings + [found for fleet in fleets for found in ask_node_doctor(fleet, cluster)]


def ask_leftovers(fleet: FleetWish, cluster: str) -> tuple[Leftover, ...]:
    """Return all resources with the tags of ``cluster``."""
    return _ask(_Leftovers, fleet, "leftovers", 120, {"cluster": cluster})


def ask_sweep(place: str, region: str = "") -> Sweep:
    """Return all resources with our tags at a provider, by default in all regions."""
    return _ask(Sweep, FleetWish(place, region=region), "sweep", 300, owner="")


def ask_clean(
    place: str, region: str, cluster: str, owner: str, *, images: bool = False
) -> tuple[Leftover, ...]:
    """Delete the resources of ``cluster`` that can be deleted now, and return the others.

    Args:
        owner: Only resources of this owner; empty for all.
        images: Whether to delete images baked from it too.
    """
    asked = {"cluster": cluster, "images": images}
    return _ask(_Leftovers, FleetWish(place, region=region), "clean", 300, asked, owner=owner)


def ask_policy(principal: str, store: str = "") -> tuple[str, tuple[str, ...]]:
    """Return the policy of ``person``, ``node`` or ``baker`` at the provider that has policies.

    Args:
        store: ``s3://bucket/prefix`` of the nodes; empty leaves it for a person to fill in.

    Returns:
        The policy, and the commands that make a role and an instance profile of it, if it takes
        one.
    """
    return _first(lambda place: place.has_policy).policy(principal, store)


def ask_bake(wish: ClusterWish, node: str, name: str) -> str:
    """Start to make an image of a node without its private files; return the image's id.

    Raises:
        StateError: The node is not ready yet.
        CloudError: The provider refuses.
        MachineError: The node cannot be reached, or has a user's files on it.
    """
    return _ask(str, wish.fleet, "bake", 600, {"id_": node, "name": name}, cluster=wish.name)


def ask_baked(region: str, image: str) -> tuple[str, int]:
    """Return an image's state, such as ``pending`` or ``available``, and its progress in %."""
    found = _ask(dict[str, Any], _of_images(region), "image", 60, {"id_": image})
    return found["state"], found["percent"]


def ask_discard(region: str, image: str) -> tuple[str, ...]:
    """Delete a baked image with its snapshots; return the snapshots' ids."""
    return _ask(tuple[str, ...], _of_images(region), "discard", 120, {"image": image})


def ask_interruption(
    store: Store, node: str, notice: float, *, cluster: str = DEFAULT_CLUSTER
) -> str:
    """Have a simulated node taken back, as spot nodes are; return its id.

    Args:
        node: Its id; empty for the newest node without a notice.
        notice: Seconds from the interruption notice until the node is reclaimed.

    Raises:
        InputError: The notice is not valid.
        StateError: The cluster's nodes are not simulated, or it has no such node.
    """
    wish = _check_reclaims(store, notice, cluster)
    nodes = store.fleets.nodes(cluster)
    there = sorted(o.id for o in nodes if o.state not in (NodeState.ASKED, NodeState.LEAVING))
    noticed = {o.id for o in nodes if o.is_going}
    chosen = [id_ for id_ in there if (id_ == node if node else id_ not in noticed)]
    if not chosen:
        which = f"no node {node!r}" if node else "no node"
        raise StateError(
            f"Cluster {cluster!r} has {which}", f"it has {', '.join(there) or 'none'}."
        )
    asked = {"id_": chosen[-1], "notice": notice}
    _ask(object, wish.fleet, "interrupt", 30, asked, cluster=cluster)
    return chosen[-1]


def ask_replay(
    store: Store,
    text: str,
    name: str,
    *,
    speed: float,
    skip: float,
    span: float,
    notice: float,
    now: float,
    cluster: str = DEFAULT_CLUSTER,
) -> SpotHistory:
    """Have simulated nodes come and go as in a recording; return the part that is replayed.

    The most nodes that were there at once are as many as the cluster asks for.

    Args:
        text: The recording.
        name: Of its file.
        speed: How many times as fast.
        skip: Seconds of the recording that are left out.
        span: Seconds of it that are replayed; 0 for all that follow.
        notice: Seconds from the interruption notice until a node is reclaimed.
        now: Epoch seconds.

    Raises:
        InputError: The recording or a number is not valid.
        StateError: The cluster's nodes are not simulated.
    """
    if speed <= 0:
        raise InputError(f"The speed must be above 0, not {speed:g}.")
    wish = _check_reclaims(store, notice, cluster)
    whole = read_history(text, name)
    history = whole.cut(skip, span or whole.seconds)
    if not history.stays or history.seconds <= 0:
        raise InputError(f"No node is there in this part of {name}", "skip less of it.")
    asked = {
        "counts": schedule(history, wish.fleet.nodes, speed, now),
        "ends": now + history.seconds / speed,
        "notice": notice,
    }
    _ask(object, wish.fleet, "replay", 30, asked, cluster=cluster)
    return history


def _check_reclaims(store: Store, notice: float, cluster: str) -> ClusterWish:
    if not 0 <= notice <= MOST_NOTICE:
        raise InputError(f"The notice must be from 0 to {MOST_NOTICE:g} s, not {notice:g}.")
    wish = store.cluster_wish(check_cluster_name(cluster))
    if wish is None or not wish.fleet.place.reclaims:
        raise StateError(
            f"The nodes of cluster {cluster!r} are not simulated, and not reclaimed on request",
            f"start some with `workbench up {example_options()[1]} --cluster NAME`.",
        )
    return wish


class _Answer(BaseMessage, frozen=True):
    """What the other process answers: an answer, or an error.

    Args:
        error: The class of the error; empty if there is none.
    """

    answer: msgspec.Raw = msgspec.Raw(b"null")
    error: str = ""
    what: str = ""
    remedy: str = ""
    kind: str = ""
    code: str = ""


def _ask(
    kind: type[T],
    fleet: FleetWish,
    question: str,
    seconds: float,
    arguments: Mapping[str, object] | None = None,
    *,
    cluster: str = "",
    owner: str | None = None,
) -> T:
    """Ask a fleet's provider in another process.

    Args:
        kind: What the answer is.
        owner: Whose resources it is about; None for ours.
    """
    asked = {
        "fleet": fleet,
        "arguments": arguments or {},
        "cluster": cluster,
        "owner": owner_id() if owner is None else owner,
    }
    try:
        answer = subprocess.run(
            [sys.executable, "-m", "workbench.cloud", question],
            input=msgspec.json.encode(asked).decode(),
            capture_output=True,
            text=True,
            encoding="utf-8",
            check=False,
            timeout=seconds,
        )
    except subprocess.TimeoutExpired as error:
        raise MachineError(
            f"There was no answer about {question} within {seconds:g} s",
            "see that this machine reaches the network, and try again.",
        ) from error
    if not answer.stdout.startswith("{"):
        last = (answer.stderr.strip().splitlines() or ["without a message"])[-1]
        raise MachineError(
            f"The query about {question} failed: {last}", f"reinstall workbench into {sys.prefix}."
        )
    reply = decode(_Answer, answer.stdout)
    if reply.error == "CloudError":
        raise CloudError(reply.what, reply.kind, reply.code, remedy=reply.remedy)
    if reply.error:
        raise _ERRORS[reply.error](reply.what, reply.remedy)
    return decode(kind, bytes(reply.answer))


def list_hosts(hosts: Sequence[Host]) -> FleetWish:
    """Return hosts of the user's as a fleet."""
    return FleetWish(listing_provider(), hosts=tuple(hosts))


def _of_images(region: str) -> FleetWish:
    return FleetWish(_first(lambda place: place.bakes).name, region=region)


def _first(has: Callable[[Provider], bool]) -> Provider:
    """Return the first provider with a capability; our own come first.

    Raises:
        InputError: There is none.
    """
    for place in known_providers():
        if has(place):
            return place
    raise InputError("No installed provider can do that", "install one that can.")


def _examine_store(store: Store) -> list[Finding]:
    """Return the findings on the store's disk and contents."""
    disk, usage = disk_under(store.path), store.removal.usage()
    reserve = store.path.with_name(RESERVE_NAME).exists()
    return [
        judge_place(disk),
        judge_kept(
            disk, usage.number, usage.store, usage.runs, str(store.removal.retention()), reserve
        ),
    ]
